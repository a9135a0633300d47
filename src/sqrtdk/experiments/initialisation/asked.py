"""Answer a question that people ask: the spread of the logits in a fresh model."""

from sqrtdk.experiments.initialisation.model import INITS
from sqrtdk.experiments.story import Asked, RunTables, head
from sqrtdk.figures.words import INITS as NAMES
from sqrtdk.stats.intervals import Estimate, MissingError
from sqrtdk.stats.wording import format_estimate


def fresh(run: RunTables) -> str:
    """Give the measured σ of each initialisation at the size closest to a usual model."""
    table = run.table("sigma")
    table = table[(table["norm"] == "layer_norm") & (table["cosine_percent"] == 0)]
    table = table[(table["own_scale"] == 1) & table["exact"].notna()]
    if table.empty:
        raise MissingError("the run has no unrelated tokens with LayerNorm")
    d_model, d_k = int(table["d_model"].max()), head(table["d_k"])
    table = table[(table["d_model"] == d_model) & (table["d_k"] == d_k)]
    table = table.drop_duplicates("init").set_index("init")
    found = [
        f"{NAMES[name]} {format_estimate(Estimate(*row[['mean', 'ci_low', 'ci_high', 'exact']]))}"
        for name in INITS
        if name in table.index
        for row in [table.loc[name]]
    ]
    return f"At d_model = {d_model} and d_k = {d_k}, after LayerNorm: {', '.join(found)}."


ASKED = (
    Asked(
        220,
        "first-sigma",
        "What σ does a freshly initialised model have?",
        "After LayerNorm it is the scale times √d_k times d_model times the standard deviations of "
        "the entries of W_q and of W_k, and smaller by √(1 - c) if tokens have cosine c. With "
        "1/√d_k that is 1 for Xavier's law on square matrices, 1/2 for one fused matrix of q, k "
        "and v, 1/3 for the default of linear layers, and d_model/2500 for a standard deviation of "
        "0.02. T5 gets 1 without a scale.",
        fresh,
        "claim-initial_near_one",
    ),
)
