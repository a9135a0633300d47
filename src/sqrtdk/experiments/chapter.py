"""The sentences of the chapter with their rules, in its order."""

from sqrtdk.claims import readings as claims_readings
from sqrtdk.claims.claim import Claim
from sqrtdk.claims.readings import FACTOR, HEAD, LOSS, ONE_HOT, SELECTS, SLOPE_TOLERANCE, STABLE
from sqrtdk.experiments.capacity import claims as capacity_claims
from sqrtdk.experiments.encoder_decoder import claims as encoder_decoder_claims
from sqrtdk.experiments.encoder_decoder import judging
from sqrtdk.experiments.encoder_decoder.measure import SOLVED
from sqrtdk.experiments.precision import claims as precision_claims
from sqrtdk.experiments.projections import claims as projections_claims
from sqrtdk.experiments.reach import claims as reach_claims
from sqrtdk.experiments.related import claims as related_claims
from sqrtdk.experiments.related import cosines
from sqrtdk.experiments.scaling import claims as scaling_claims
from sqrtdk.experiments.scaling import measure as scaling
from sqrtdk.experiments.score_width import claims as score_width_claims
from sqrtdk.experiments.score_width import widths
from sqrtdk.experiments.training import claims as training_claims
from sqrtdk.experiments.training import equivalence, rates
from sqrtdk.schema import Column
from sqrtdk.stats import agreement, contrasts, decisions
from sqrtdk.stats.decisions import LARGE
from sqrtdk.stats.series import Whole

_END = (
    f"at the run's largest d_k. A run whose largest d_k is below {LARGE} cannot make it false, and "
    "makes it true with a condition only."
)

_LATE = f"Also with a condition if that begins only above d_k = {HEAD}."

_FAR = (
    f"True needs {decisions.SIZES} values of d_k or more that span a factor of {decisions.SPAN} "
    f"and end at {LARGE} or more"
)

CLAIMS = (
    Claim(
        "average",
        "The weights of a query sum to 1, and its output is an average of the values.",
        "True if, in every cell, the weights of all queries sum to 1 and all outputs lie within "
        f"the range of the values, up to rounding: {claims_readings.ROUNDING} n_k eps. False "
        f"otherwise.",
        "related-entropy",
        related_claims.average,
        experiment="related",
        subjects=lambda _, table: [Whole(table)],
    ),
    Claim(
        "graded",
        "A key that is only tangentially related makes a small contribution.",
        f"Judged at d_k = {HEAD}, or the next larger d_k of the run, with 1/√d_k, for the key "
        "whose cosine is closest to half of the match's. True if more than half of the queries "
        "give it at least an equal share, 1/n_k, and if its mean weight is above that of unrelated "
        "keys and below that of the match; false if one of these surely fails. With a condition "
        "if it is no longer heard at larger d_k.",
        "related-cosines",
        related_claims.graded,
        experiment="related",
        subjects=related_claims.gradings,
        lacking="no input law of the run gives queries several related keys",
        table="cosines",
    ),
    Claim(
        "scores_grow",
        "The dot products of unrelated vectors grow as √d_k.",
        "True if the slope of ln logit_std on ln d_k, without scaling, lies with its whole "
        f"interval within {SLOPE_TOLERANCE} of 1/2; false if it lies wholly outside. "
        f"{_FAR}, and so does false.",
        "scaling-logit_std",
        scaling_claims.scores_grow,
        vectors="unrelated",
    ),
    Claim(
        "scores_stable",
        "Divided by √d_k, the scores stay in a stable range.",
        "True if the largest and the smallest logit_std over d_k, with 1/√d_k, differ by surely "
        f"less than {100 * STABLE:.0f} % of the largest; false if surely by more. {_FAR}. With a "
        "condition where a run has only unrelated or only related vectors.",
        "scaling-logit_std",
        scaling_claims.scores_stable,
        about=("unrelated", "related"),
        also=("related",),
    ),
    Claim(
        "saturation",
        "Large d_k saturates the softmax.",
        f"True if entropy_normalized without scaling is surely below 1/2 {_END} {_LATE}",
        "scaling-entropy",
        scaling_claims.saturation,
        about=("unrelated",),
    ),
    Claim(
        "one_hot",
        "Without scaling the attention weights become nearly one-hot.",
        f"True if max_weight without scaling is surely above {ONE_HOT} {_END} {_LATE}",
        "scaling-max_weight",
        scaling_claims.one_hot,
        about=("unrelated",),
    ),
    Claim(
        "gradients_typical",
        "Without scaling there are near-zero gradients for most positions.",
        "A position is one entry of the gradient at the logits, near zero below 0.001/n_k. True if "
        "more than half of them are near zero without scaling, fewer than half with it, and the "
        "median row norm is smaller without it than with it, which counting zeros alone does not "
        f"show; all three surely, and {_END} {_LATE}",
        "scaling-dead_entries",
        scaling_claims.gradients_typical,
        about=("unrelated",),
    ),
    Claim(
        "stable",
        "Dividing by √d_k keeps the softmax stable, regardless of d_k.",
        "True if the largest and the smallest entropy_nats over d_k, with 1/√d_k, differ by surely "
        f"less than {100 * STABLE:.0f} % of the largest; false if surely by more. {_FAR}. With a "
        "condition where a run has only unrelated or only related vectors.",
        "scaling-entropy",
        scaling_claims.stable,
        about=("unrelated", "related"),
        also=("related",),
    ),
    Claim(
        "from_64",
        "Scaling matters a great deal at the large d_k values used in real Transformers (often 64 "
        "or more).",
        "True if, at every d_k of the run that is 64 or more, entropy_normalized without scaling "
        f"is surely less than {LOSS:g} of that with it; false if surely more at one of them. A run "
        f"whose largest d_k is below {LARGE} cannot make it false, and makes it true with a "
        "condition only. What scaling does to training is judged apart.",
        "scaling-entropy",
        scaling_claims.from_64,
        vectors="unrelated",
    ),
    Claim(
        "gradients_rms",
        "Without scaling the gradients that reach q, k and v vanish on average too.",
        "True if the root mean squares of the gradients at q, k and v are all surely smaller "
        "without scaling than with it at the run's largest d_k; false if one is surely larger. A "
        f"run whose largest d_k is below {LARGE} cannot make it false, and makes it true with a "
        "condition only.",
        "scaling-gradients",
        scaling_claims.gradients_rms,
        source="ours",
        vectors="unrelated",
    ),
    Claim(
        "gradients_related",
        "If every query has a matching key, gradients vanish with √d_k too, only at larger d_k.",
        "True if at the run's largest d_k surely more than half of the queries have a gradient "
        "below 0.001, without scaling and with 1/√d_k, and at some d_k surely more than half "
        "without scaling, but fewer with it; false if one of these surely fails. A run whose "
        f"largest d_k is below {LARGE} cannot make it false, and makes it true with a condition "
        "only.",
        "related-gradients",
        related_claims.gradients_matched,
        source="ours",
        experiment="related",
        subjects=related_claims.matched,
        lacking="no input law of the run gives queries a matching key",
    ),
    Claim(
        "inverse",
        "Dividing by d_k keeps attention stable for related vectors, and it still finds the match.",
        "Two things are asked of 1/d_k, where each query has a match: the largest and the smallest "
        f"entropy_nats over d_k differ by less than {100 * STABLE:.0f} % of the largest, and at "
        f"the largest d_k the match has a weight above {SELECTS:g}, more than all other keys "
        f"together. True if both surely hold, false if one surely fails. {_FAR}; a weight that is "
        f"too small makes it false only from d_k = {LARGE} on.",
        "related-entropy",
        related_claims.inverse,
        source="ours",
        experiment="related",
        subjects=related_claims.matched,
        lacking="no input law of the run gives queries a matching key",
    ),
    Claim(
        "half_precision",
        "In half precision the scale belongs before the score product.",
        "True if, at some size, surely fewer float16 scores overflow with the scale before the "
        "product than after it; false if at none. Only sizes where some overflow and the scale "
        "is not 1 count. The condition says which they are, and for which kernels.",
        "precision-errors",
        precision_claims.half_precision,
        source="ours",
        experiment="precision",
        subjects=lambda _, table: [Whole(table)],
    ),
    Claim(
        "agreement",
        "Measurement and theory agree.",
        f"True if the root mean square of z is between {agreement.RMS_Z[0]} and "
        f"{agreement.RMS_Z[1]} and the largest |z| below {agreement.MAX_ABS_Z}; false "
        f"otherwise. z is "
        "the deviation in standard errors, brought from Student's t to the normal scale. Every "
        f"float64 mean with an exact value and at least {agreement.GATED_SEEDS} seeds counts, once "
        "where metrics or arms of one draw have the same |z|. The rule cannot see errors far below "
        "the standard error of every mean, nor errors in what has no exact value: medians, "
        "quantiles, shares, other input laws, and rules that look at q and k.",
        "scaling-entropy",
        scaling_claims.agreement,
        source="ours",
        subjects=lambda _, table: [Whole(table)],
    ),
    Claim(
        "training",
        "Scaling helps training.",
        "The ratio is the median over seeds of the steps to 90 % held-out accuracy without scaling "
        "over those with 1/√d_k. Half of the seeds choose the best learning rate of each arm, the "
        "other half are reported at it, and the other way round. A run that does not get there "
        "bounds the ratio of its seed by the steps trained; of the interval the outer bounds "
        "count. At the grid's largest d_k: true where both are above 1; where both are below 1, or "
        f"both are 1, false if that d_k is {LARGE} or more, else not measured; undecided "
        "elsewhere. Not measured where that d_k is 1, a chosen rate there is at the edge of the "
        "grid, fewer than six seeds give no interval, or too few runs get to 90 % to bound the "
        f"ratio. With a condition where the ratio is below {training_claims.MUCH}, or may be.",
        "training-steps",
        training_claims.scaling_helps,
        caveat="for initial weights that give q and k entries of variance 1; smaller ones do "
        "without it",
        experiment="training",
        subjects=training_claims.comparisons,
        table="rates",
    ),
    Claim(
        "stability",
        "Scaling matters for training stability at large d_k.",
        "The window of learning rates is the number of decades of rates at which a run ends at 90 "
        "% accuracy or more. Compared is, seed by seed, how much wider it is with 1/√d_k than "
        "without scaling, at the grid's largest d_k. True where the whole interval of the mean is "
        f"above {training_claims.WIDER:.2f} decades, a factor of 2; where it is below, false "
        f"if that d_k "
        f"is {LARGE} or more, else not measured; undecided elsewhere. Not measured where the "
        "window that would have to be the narrower one reaches an end of the grid.",
        "training-rates",
        training_claims.stability,
        experiment="training",
        subjects=training_claims.comparisons,
        table="rates",
    ),
    Claim(
        "training_twin",
        "What scaling does for training, smaller initial weights do without it.",
        "True where every run with 1/√d_k and its twin without a scale, from weights divided by "
        "the fourth root of d_k and at a rescaled learning rate, reach 90 % at the same step, or "
        "neither does, and their losses "
        f"never differ by more than {100 * training_claims.SAME} %, which leaves room for "
        f"rounding; false "
        "elsewhere.",
        "training-steps",
        training_claims.same_run,
        source="ours",
        experiment="training",
        subjects=lambda _, table: [Whole(table)],
        table="twins",
    ),
    Claim(
        "projections",
        "Queries, keys and values each need their own projection.",
        "The task is a lookup in which a query is its item turned by a right angle, and the answer "
        "is the item turned the other way round. True where, after training, the head with three "
        f"projections answers with an accuracy surely above {SOLVED} at some learning rate, and "
        "both the head with W_q = W_k and the head with W_v = I are surely below at every one, "
        "with surely less than "
        f"{100 * judging.SETTLED:.0f} percentage points gained in the second half of the "
        "training at their best. False where one of the two answers at some rate. Not measured "
        "where the head with three projections does not answer, or the others are still rising.",
        "projections-accuracy",
        projections_claims.projections,
        experiment="projections",
        subjects=claims_readings.parts("d_k", "n_k", "batch_size"),
    ),
    Claim(
        "bottleneck",
        "Attention removes the bottleneck of the fixed-size vector.",
        "True where, at the longest source and after training, the accuracy of the fixed vector is "
        f"below {SOLVED} and that of some attention above it. False where the fixed vector is "
        f"above it at length = {encoder_decoder_claims.LONG} or more, or where every attention "
        f"is below it "
        "although its training has settled (above the most frequent value, and with surely less "
        f"than {100 * judging.SETTLED:.0f} percentage points gained in its second half). The "
        "condition says whether the fixed vector has settled too, so that its size is what it "
        "lacks, or may only not be trained yet.",
        "encoder_decoder-length",
        encoder_decoder_claims.bottleneck,
        experiment="encoder_decoder",
        subjects=claims_readings.parts("hidden", "d_k", "learning_rate"),
    ),
    Claim(
        "capacity",
        "More training does not help a fixed vector that is too small.",
        "After training, at one source length. A size answers where its accuracy is surely above "
        f"{SOLVED} at some learning rate, and fails where it is surely below at all of them. It "
        "has settled where, at its best rate, the second half of the training steps adds surely "
        f"less than {100 * judging.SETTLED:.0f} percentage points, and it is surely above "
        "chance; it is still rising where the second half adds surely more. True where the "
        "smallest size fails and has settled and a larger one answers; false where all sizes fail "
        "and have settled, so that size changes nothing. Not measured where the smallest size "
        "answers or is still rising, or where none answers and some have not settled.",
        "capacity-hidden",
        capacity_claims.capacity,
        experiment="capacity",
        subjects=claims_readings.parts("length"),
    ),
    Claim(
        "score_width",
        "As the score width grows, dot attention without scaling falls behind; additive and scaled "
        "dot attention do not.",
        "Compared are steps to an accuracy of "
        f"{SOLVED}, seed by seed. Half of the seeds choose each reader's learning rate at each "
        "d_k, the other half are reported at it, and the other way round. A seed that does not "
        "get there bounds its ratio by the steps trained. A reader keeps up where the whole "
        "interval of the median ratio of its steps to those at the smallest d_k is below "
        f"{FACTOR}; it is behind where the whole interval is above {FACTOR}. True where additive "
        "and scaled dot attention keep up at every d_k and, at the largest, unscaled dot attention "
        "is behind itself and, by the same margin, behind scaled dot attention. False where "
        "additive or scaled dot attention is behind at some d_k; or where the largest d_k is "
        f"{LARGE} or more and unscaled dot attention is surely not behind. Else not measured, "
        "and with fewer than six seeds, which give no interval.",
        "score_width-d_k",
        score_width_claims.score_width,
        experiment="score_width",
        subjects=claims_readings.parts("length", "hidden"),
        table="widths",
    ),
    Claim(
        "reach",
        "Attention reaches any distance directly.",
        "True where, over the largest distance, the norm of the derivative of the answer by a "
        "state falls to no less than 1/10 with every attention, before and after training, and "
        "below 1/10 with the fixed vector before training; false where it falls below with some "
        "attention.",
        "reach-distance",
        reach_claims.reach,
        experiment="reach",
        subjects=claims_readings.parts(*reach_claims.REACH),
    ),
    Claim(
        "vanishing",
        "The fixed vector fails because the gradient does not reach far back.",
        "Within reach are the distances at which, after training, the norm of the derivative is "
        "surely more than 1/100 of that at distance 0, beyond it those at which it is surely less. "
        "True where the fixed vector answers those within reach with an accuracy above "
        f"{SOLVED} and some are beyond; false where it is below at all of those within reach, "
        "although training has settled (its second half added surely less than "
        f"{100 * judging.SETTLED:.0f} percentage points to the accuracy over all distances, "
        "and the nearest is answered surely more often than by chance). "
        "Not measured where training has not settled, where it is above at some of them and below "
        "at others, or answers every distance.",
        "reach-distance",
        reach_claims.vanishing,
        source="ours",
        experiment="reach",
        subjects=claims_readings.parts(*reach_claims.REACH),
    ),
)

SCHEMAS: dict[str, tuple[Column, ...]] = {
    "contrasts": contrasts.columns(scaling.COLUMNS),
    "cosines": cosines.COLUMNS,
    "rates": rates.COLUMNS,
    "twins": equivalence.COLUMNS,
    "widths": widths.COLUMNS,
}
"""The tables that decide a claim, besides the summaries."""
