"""Answer a question that people ask: how exact the exact values are."""

from sqrtdk.experiments.related_exact.gate import ALL
from sqrtdk.experiments.related_exact.measure import D_K, N_K
from sqrtdk.experiments.story import Asked, RunTables
from sqrtdk.stats.intervals import Estimate, MissingError
from sqrtdk.stats.wording import format_estimate, format_number


def exactness(run: RunTables) -> str:
    """Give the largest difference from independent integrals, and the deviations of samples."""
    table, points = run.table("quadrature"), run.table("gate")
    if table.empty or points.empty:
        raise MissingError("the run has no related vectors")
    together = points[points["metric"] == ALL]
    laws = ", ".join(
        f"{row['vectors']} {format_estimate(Estimate(row['rms_z'], row['ci_low'], row['ci_high']))}"
        f" (largest |z| {format_number(row['max_abs_z'])})"
        for row in together.to_dict("records")
    )
    cells = len(table.drop_duplicates(["vectors", "size_d_k", "scale"]))
    return (
        f"With two keys every mean is a double integral, too: the largest relative difference from "
        f"it is {format_number(float(table['relative'].max()), 2)}, over {len(table)} means of "
        f"{cells} cells. Over {int(together['n_seeds'].min())} random points of each law, of "
        f"{N_K[0]} to {N_K[1]} keys of {D_K[0]} to {D_K[1]} dimensions, the deviation of measured "
        f"means in standard errors has a root mean square of {laws}; chance alone gives 1."
    )


ASKED = (
    Asked(
        203,
        "how-exact",
        "How exact is exact?",
        "The exact values of unrelated vectors, of a match and of the sphere are integrals over "
        "one or two numbers, whatever the number of keys and dimensions. They are summed until "
        "finer steps change them by less than one part in 10⁸. An integral by another route shows "
        "whether the sums are right, and a sample whether they are of the right law. The squares "
        "of gradients are skewed, so that their standard errors are sometimes too small and "
        "z is a little above 1, also without an error.",
        exactness,
        "claim-agreement_related",
    ),
)
