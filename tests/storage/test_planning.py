"""Shards: every cell exactly once; only cells that no shard on disk holds are new."""

from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sqrtdk.schema import Column
from sqrtdk.storage import planning, shard_files

COLUMNS = (Column("d_k", "An axis.", read=int, axis=True), Column("weight", "A metric."))
RULES = {name: {"rule": "constant", "value": value} for value, name in enumerate("abc", start=1)}


def settings(d_k: list[int], seed: list[int], rules: str = "ab") -> dict[str, Any]:
    return {
        "d_k": d_k,
        "inputs": {"gaussian": {"law": "gaussian"}},
        "scaling": {name: RULES[name] for name in rules},
        "seed": seed,
    }


def cells(plan: planning.Plan, paths: Any) -> list[tuple[int, str, int]]:
    return [
        (plan.shards[path]["d_k"], rule, seed)
        for path in paths
        for rule in plan.shards[path]["scaling"]
        for seed in range(*plan.shards[path]["seeds"])
    ]


def compute(plan: planning.Plan) -> None:
    for path in plan.missing:
        shard_files.write_shard(path, plan.shards[path], [], COLUMNS)


def plan(folder: Path, wanted: dict[str, Any], size: int = 4) -> planning.Plan:
    return planning.plan(folder, wanted, COLUMNS, shard_seeds=size)


seeds = st.lists(st.integers(0, 30), min_size=1, unique=True).map(sorted)


@given(seeds, st.integers(1, 40))
def test_blocks_cover_the_seeds_exactly_once_and_are_not_longer_than_asked(
    seed: list[int], size: int
) -> None:
    found = list(planning.blocks(seed, size))
    assert [s for start, stop in found for s in range(start, stop)] == seed
    assert all(0 < stop - start <= size for start, stop in found)


@given(seeds, st.integers(1, 40))
def test_a_fresh_plan_computes_every_cell_exactly_once(seed: list[int], size: int) -> None:
    fresh = plan(Path("nowhere"), settings([2, 16], seed), size)
    wanted = [(d_k, rule, s) for d_k in (2, 16) for rule in "ab" for s in seed]
    assert sorted(cells(fresh, fresh.missing)) == wanted


def test_growing_computes_only_what_is_new_and_going_back_nothing(tmp_path: Path) -> None:
    small = settings([2], [0, 1, 2])
    compute(plan(tmp_path, small))
    more_seeds = plan(tmp_path, settings([2], [0, 1, 2, 3, 4]))
    assert sorted(cells(more_seeds, more_seeds.missing)) == [
        (2, rule, seed) for rule in "ab" for seed in (3, 4)
    ]
    more_sizes = plan(tmp_path, settings([2, 16], [0, 1, 2]))
    assert {d_k for d_k, _, _ in cells(more_sizes, more_sizes.missing)} == {16}
    compute(more_seeds)
    compute(more_sizes)
    assert not plan(tmp_path, small).missing
    assert not plan(tmp_path, small, size=1).missing


def test_a_new_arm_computes_that_arm_alone(tmp_path: Path) -> None:
    compute(plan(tmp_path, settings([2], [0, 1])))
    grown = plan(tmp_path, settings([2], [0, 1], rules="abc"))
    assert sorted(cells(grown, grown.missing)) == [(2, "c", 0), (2, "c", 1)]


def test_an_arm_of_the_same_name_with_another_formula_is_new(tmp_path: Path) -> None:
    wanted = settings([2], [0])
    compute(plan(tmp_path, wanted))
    wanted["scaling"]["a"] = {"rule": "constant", "value": 9}
    changed = plan(tmp_path, wanted)
    assert cells(changed, changed.missing) == [(2, "a", 0)]


def test_shards_that_add_nothing_are_not_used(tmp_path: Path) -> None:
    compute(plan(tmp_path, settings([2], list(range(8)))))
    assert len(plan(tmp_path, settings([2], [0, 1])).shards) == 1


def test_other_columns_or_a_strange_file_make_no_shard(tmp_path: Path) -> None:
    wanted = settings([2], [0])
    compute(plan(tmp_path, wanted))
    other = planning.plan(tmp_path, wanted, COLUMNS[:1], shard_seeds=4)
    assert other.missing
    (path,) = plan(tmp_path, wanted).shards
    for text in ("", "not a shard\n", "# [1]\n", '# {"d_k": 2}\n'):
        path.write_text(text, encoding="utf-8")
        again = plan(tmp_path, wanted)
        assert again.missing == {path.with_suffix(".2.csv")}
        assert again.damaged == {path}


def test_a_damaged_shard_is_left_alone_and_the_next_name_serves(tmp_path: Path) -> None:
    wanted = settings([2], [0])
    first = plan(tmp_path, wanted)
    compute(first)
    (path,) = first.shards
    for number in (2, 3):
        (latest,) = plan(tmp_path, wanted).shards
        latest.write_text(latest.read_text(encoding="utf-8")[:-9], encoding="utf-8")
        again = plan(tmp_path, wanted)
        assert set(again.shards) == again.missing == {path.with_suffix(f".{number}.csv")}
        compute(again)
        assert not plan(tmp_path, wanted).missing


def test_shards_that_other_code_made_do_not_serve(tmp_path: Path) -> None:
    wanted = settings([2], [0])
    compute(planning.plan(tmp_path, wanted, COLUMNS, shard_seeds=4, code="old"))
    assert planning.plan(tmp_path, wanted, COLUMNS, shard_seeds=4, code="new").missing
    assert not planning.plan(tmp_path, wanted, COLUMNS, shard_seeds=4, code="old").missing


def test_the_order_of_keys_and_arms_does_not_change_a_name() -> None:
    slab = settings([2], [0]) | {"d_k": 2, "seeds": [0, 1]}
    del slab["seed"]
    turned = dict(reversed(slab.items())) | {"scaling": dict(reversed(slab["scaling"].items()))}
    assert planning.file_name(slab, COLUMNS) == planning.file_name(turned, COLUMNS)


def test_an_experiment_without_scale_rules_is_cut_by_seeds_alone(tmp_path: Path) -> None:
    wanted = {"d_k": [2, 16], "seed": list(range(6))}
    first = plan(tmp_path, wanted)
    found = [(slab["d_k"], slab["seeds"]) for slab in first.shards.values()]
    assert sorted(found) == [(2, [0, 4]), (2, [4, 6]), (16, [0, 4]), (16, [4, 6])]
    compute(first)
    more = plan(tmp_path, wanted | {"seed": list(range(8))})
    assert [more.shards[path]["seeds"] for path in sorted(more.missing)] == [[6, 8], [6, 8]]


def test_what_only_bears_the_name_of_a_shard_is_left_alone(tmp_path: Path) -> None:
    wanted = settings([1, 2], [0, 1])
    first, second = sorted(plan(tmp_path, wanted).missing)
    first.mkdir(parents=True)
    second.symlink_to(tmp_path / "nothing")
    found = plan(tmp_path, wanted)
    assert found.damaged == {first}
    assert found.missing == {first.with_suffix(".2.csv"), second}
