"""Decide which jobs start first, so that figures come early and all cores end together."""

from collections.abc import Mapping

TABLES = 10**9
"""Priority of the jobs that need only shards: tables, figures and the report. They are short."""

STEP = 10**6
"""Difference of the priorities of two experiments: more than the seconds of any shard."""


def priorities(work: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Return the priority of each shard, from the seconds that each shard of an experiment takes.

    The experiment with the least work comes first, so that its figures are done while the others
    are measured. In an experiment the longest shard comes first, because short ones at the end
    leave no core idle for long. A shard of several experiments has its highest priority.

    >>> priorities({"a": {"x": 9.0, "s": 3.0}, "b": {"y": 1.0, "s": 2.0}})
    {'x': 1000009.0, 's': 2000002.0, 'y': 2000001.0}
    """
    order = sorted(work, key=lambda experiment: sum(work[experiment].values()), reverse=True)
    found: dict[str, float] = {}
    for place, experiment in enumerate(order, start=1):
        for shard, seconds in work[experiment].items():
            found[shard] = STEP * place + min(float(seconds), STEP - 1)
    return found
