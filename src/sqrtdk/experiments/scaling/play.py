"""Make the figure that readers play with, from form controls and CSS alone.

Every choice of d_k and n_k has its panel, drawn from the tables of the run. Radio buttons select
one by `:has(:checked)`. Without CSS, on paper and in old browsers the panel of the usual head size
stays, with the same numbers as a table below.
"""

import math
from collections.abc import Iterator, Sequence

import pandas as pd
from markupsafe import Markup

from sqrtdk.experiments.scaling import one_query
from sqrtdk.experiments.story import (
    PAIR,
    WORDS,
    RunTables,
    Told,
    head,
    lines,
    over_d_k,
)
from sqrtdk.figures import chart
from sqrtdk.figures.chart import Axis
from sqrtdk.stats.curves import crossing
from sqrtdk.stats.intervals import MissingError, evenly_spaced
from sqrtdk.stats.series import RuleKind, Series
from sqrtdk.stats.wording import format_estimate, format_number, format_percent

FACTS = (
    ("effective_keys", "keys in use"),
    ("max_weight", "the favourite's weight"),
    ("entropy_normalized", "of the entropy left"),
    ("grad_logits_median", "gradient at the scores, median query"),
    ("grad_q_rms", "gradient at the queries, root mean square"),
)
"""Metrics of summary.csv that a panel shows for each scale rule."""


def tell(run: RunTables) -> Told:
    """Return the screen: the guess, the figure, and the same numbers as a table."""
    main = run.main()
    # The exact values are those of the ledger; here the curve shows them.
    half = crossing(main.curve("unscaled", "entropy_normalized"), 0.5)
    series = _series(run, main)
    widths = evenly_spaced(sorted(main.curve("unscaled", "entropy_normalized")), one_query.WIDTHS)
    try:
        rows = run.table("one_query")
    except MissingError:
        rows = pd.DataFrame(columns=[column.name for column in one_query.COLUMNS])
    usual = head(widths)
    parts = [
        _guess(main, widths, half.mean if half else math.nan),
        Markup('<div class="shown"><div class="controls">'),
        _choice("d_k", "<var>d<sub>k</sub></var>, numbers per vector", widths, usual),
        _choice("n_k", "keys", [one.n_k for one in series], main.n_k),
        _arms(),
        Markup('</div><div aria-live="polite">'),
        *(
            _length(run, one, widths, rows, hidden=one.n_k != main.n_k, usual=usual)
            for one in series
        ),
        Markup("</div></div>"),
    ]
    form = Markup('<form class="play" aria-label="How many keys are still heard?">{}</form>')
    text = (
        f"A query can look at {main.n_k} keys. All vectors are random and nothing is divided. "
        "As the vectors get longer, the query looks at fewer keys. The entropy of its weights "
        "measures how widely it looks: all of it if every key gets the same, none if one key gets "
        "everything. **Guess first:** at which d_k is half of it gone?"
    )
    return Told(
        [text],
        form.format(Markup("").join(parts)),
        f"After the guess: one query's {one_query.RANKS} largest weights, sorted, without and with "
        "√d_k; the numbers are means over all queries and draws. Curves are exact where theory has "
        "them.",
        [(f"The same as a table, {main.n_k} keys", _table(main, widths))],
        Markup("").join(_css(widths, [one.n_k for one in series])),
    )


def _series(run: RunTables, main: Series) -> list[Series]:
    """Return the series of a few n_k that otherwise are like the main one."""
    alike = [
        one
        for one in run.series
        if one.n_k > 1 and all(one.axes[x] == main.axes[x] for x in ("n_q", "inputs", "dtype"))
    ]
    chosen = evenly_spaced(sorted(one.n_k for one in alike), one_query.LENGTHS)
    if main.n_k not in chosen:
        chosen = sorted({*chosen[1:], main.n_k})
    return sorted((one for one in alike if one.n_k in chosen), key=lambda one: one.n_k)


def _radio(name: str, value: object, label: str, *, checked: bool = False) -> Markup:
    return Markup(
        '<label><input type="radio" name="{0}" id="play-{0}-{1}" value="{1}"{2}> {3}</label>'
    ).format(name, value, Markup(" checked") if checked else "", Markup(label))


def _fieldset(name: str, legend: str, radios: Sequence[Markup]) -> Markup:
    return Markup('<fieldset class="{}"><legend>{}</legend>{}</fieldset>').format(
        name, Markup(legend), Markup(" ").join(radios)
    )


def _choice(name: str, legend: str, values: Sequence[int], usual: int) -> Markup:
    radios = [_radio(name, value, str(value), checked=value == usual) for value in values]
    return _fieldset(name, legend, radios)


def _arms() -> Markup:
    words = {"both": "both", "off": "without", "on": "with √<var>d<sub>k</sub></var>"}
    radios = [_radio("arm", name, text, checked=name == "both") for name, text in words.items()]
    return _fieldset("arm", "division", radios)


def _guess(main: Series, widths: Sequence[int], half: float) -> Markup:
    """Return the question and what is said to each guess."""
    left = main.curve("unscaled", "entropy_normalized")
    radios = [_radio("guess", d_k, str(d_k)) for d_k in widths]
    radios.append(_radio("guess", "none", "just show me"))
    legend = "Half of the entropy is gone at <var>d<sub>k</sub></var> ="
    found = _fieldset("guess", legend, radios)
    answer = (
        "It is never gone on this grid." if math.isnan(half) else f"It is {format_number(half, 2)}."
    )
    nearest = None if math.isnan(half) else min(widths, key=lambda d_k: abs(math.log(d_k / half)))
    for d_k in widths:
        verdict = "Right: the nearest on this grid." if d_k == nearest else answer
        found += Markup('<p class="reply g{}" hidden><b>{}</b> At {} there is {} left.</p>').format(
            d_k, verdict, d_k, format_percent(left[d_k]._replace(exact=math.nan))
        )
    return found + Markup('<p class="reply gnone" hidden><b>{}</b></p>').format(answer)


def _length(
    run: RunTables,
    one: Series,
    widths: Sequence[int],
    rows: pd.DataFrame,
    *,
    hidden: bool,
    usual: int,
) -> Markup:
    """Return everything of one n_k: a panel for each d_k, and the curves with a mark at each."""
    panels = Markup("").join(_panel(one, d_k, rows, hidden=d_k != usual) for d_k in widths)
    return Markup('<div class="length n{}"{}>{}<div class="curves">{}</div></div>').format(
        one.n_k, Markup(" hidden") if hidden else "", panels, _curves(run, one, widths)
    )


def _panel(one: Series, d_k: int, rows: pd.DataFrame, *, hidden: bool) -> Markup:
    found = Markup("")
    for arm, kind in PAIR:
        shown = rows[
            (rows["d_k"] == d_k) & (rows["n_k"] == one.n_k) & (rows["scaling"] == one.rules[arm])
        ]
        weights = shown.sort_values("rank")["weight"].tolist()
        title = f"{min(one.n_k, one_query.RANKS)} largest weights of one query, {WORDS[kind]}"
        drawn = (
            chart.bars(weights, kind, title, top=1.0, width=min(one.n_k, one_query.RANKS))
            if weights
            else Markup("")
        )
        found += Markup('<div class="{}"><p class="arm">{}</p>{}<ul>{}</ul></div>').format(
            kind, _words(kind), drawn, Markup("").join(_facts(one, arm, d_k))
        )
    return Markup('<div class="panel d{}"{}>{}</div>').format(
        d_k, Markup(" hidden") if hidden else "", found
    )


def _words(kind: str) -> Markup:
    return Markup(WORDS[kind].replace("√d_k", "√<var>d<sub>k</sub></var>"))


def _facts(one: Series, arm: RuleKind, d_k: int) -> Iterator[Markup]:
    for metric, words in FACTS:
        try:
            value = one.curve(arm, metric)[d_k]
        except (KeyError, MissingError):
            continue
        share = metric == "entropy_normalized"
        said = f"{format_number(100 * value.mean)} %" if share else format_number(value.mean)
        if metric == "effective_keys":
            words = f"of {one.n_k} keys in use"
        yield Markup("<li><b>{}</b> {}</li>").format(said, words)


def _curves(run: RunTables, one: Series, widths: Sequence[int]) -> Markup:
    found = Markup("")
    entropy = Axis("entropy left", 0, 1, [0, 0.25, 0.5, 0.75, 1], percent=True)
    values = [x.mean for x in one.curve("unscaled", "grad_q_rms").values()]
    top = 10.0 ** math.ceil(math.log10(max(*values, 1e-2) * 1.001))
    gradient = Axis("gradient at the queries", 1e-3, top, chart.powers(1e-3, top), log=True)
    for metrics, axis in (
        ([("entropy_normalized", "")], entropy),
        ([("grad_q_rms", "rms"), ("grad_q_median", "median")], gradient),
    ):
        try:
            drawn = lines(run, one, metrics)
        except MissingError:
            continue
        x = over_d_k(one)
        marks = Markup("").join(_mark(x, axis, d_k) for d_k in widths)
        found += chart.draw(
            x, axis, drawn, title=f"{axis.label} over d_k, {one.n_k} keys", extra=marks
        )
    return found


def _mark(x: Axis, y: Axis, d_k: int) -> Markup:
    top, bottom = (chart.place(x, y, (float(d_k), end)) for end in (y.high, y.low))
    return Markup('<path class="mark-at d{}" d="M{:.1f} {:.1f}V{:.1f}"/>').format(
        d_k, *top, bottom[1]
    )


def _table(main: Series, widths: Sequence[int]) -> Markup:
    """Return the numbers of all panels of one n_k as a table."""
    shown = [("logit_std", "spread of scores"), *FACTS]
    cells = []
    for d_k in widths:
        row = [Markup('<th scope="row">{}</th>').format(d_k)]
        for metric, _ in shown:
            for arm, _ in PAIR:
                try:
                    value = main.curve(arm, metric)[d_k]
                except (KeyError, MissingError):
                    row.append(Markup("<td>–</td>"))
                    continue
                text = format_estimate(value._replace(exact=math.nan)).partition(" ")[0]
                row.append(Markup("<td>{}</td>").format(text))
        cells.append(Markup("<tr>{}</tr>").format(Markup("").join(row)))
    heads = Markup("").join(
        Markup('<th scope="colgroup" colspan="2">{}</th>').format(
            "entropy left, share" if metric == "entropy_normalized" else words
        )
        for metric, words in shown
    )
    arms = Markup('<th scope="col">without</th><th scope="col">with</th>') * len(shown)
    return Markup(
        '<div class="scroll" tabindex="0" role="region" aria-label="Every panel of the figure">'
        '<table class="pivot"><caption class="hidden">Every panel of the '
        'figure, {} keys</caption><thead><tr><th rowspan="2" scope="col"><var>d<sub>k</sub></var>'
        "</th>{}</tr><tr>{}</tr></thead><tbody>{}</tbody></table></div>"
    ).format(main.n_k, heads, arms, Markup("").join(cells))


def _css(widths: Sequence[int], lengths: Sequence[int]) -> Iterator[Markup]:
    """Yield the rules that show what is chosen; the rest of the style is in the page's sheet."""

    def chosen(name: str, values: Sequence[object], letter: str, display: str) -> str:
        return "".join(
            f".play:has(#play-{name}-{x}:checked) .{letter}{x}{{display:{display}}}" for x in values
        )

    yield Markup("@supports selector(:has(a)){@media screen{")
    yield Markup(chosen("n_k", lengths, "n", "block"))
    yield Markup(chosen("d_k", widths, "panel.d", "grid"))
    yield Markup(chosen("d_k", widths, "mark-at.d", "inline"))
    yield Markup(chosen("guess", [*widths, "none"], "reply.g", "block"))
    yield Markup("}}")
