"""Tables on disk: exact text, atomic writes, and seals that detect damage."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sqrtdk.experiments import cells
from sqrtdk.jobs import merge
from sqrtdk.report import dictionary
from sqrtdk.schema import Column
from sqrtdk.storage import atomic, blocks, frames, guards, shard_files, tables

COLUMNS = (
    Column("d_k", "An axis.", read=int, axis=True),
    Column("scaling", "An axis.", read=str, axis=True),
    Column("weight", "A metric."),
    Column("share", "A metric.", optional=True),
)
SLAB = {"d_k": 2, "scaling": {"off": {}}, "seeds": [0, 1]}


def row(d_k: int = 2, weight: float = 0.1, share: float = 0.5) -> tables.Row:
    return {"d_k": d_k, "scaling": "off", "weight": weight, "share": share}


def test_floats_read_back_to_the_same_bits_and_nan_is_an_empty_field() -> None:
    text = tables.text([row(weight=0.1 + 0.2, share=math.nan), row(weight=5e-324)], COLUMNS)
    assert text == ("d_k,scaling,weight,share\n2,off,0.30000000000000004,\n2,off,5e-324,0.5\n")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_an_undefined_metric_is_an_error_and_never_zero_or_empty(value: float) -> None:
    with pytest.raises(tables.TableError, match=f"weight is {value}"):
        tables.check(row(weight=value), COLUMNS)


def test_an_optional_metric_may_be_undefined_but_not_infinite() -> None:
    tables.check(row(share=math.nan), COLUMNS)
    with pytest.raises(tables.TableError, match="share is inf"):
        tables.check(row(share=math.inf), COLUMNS)


def test_a_missing_metric_is_an_error() -> None:
    with pytest.raises(KeyError, match="weight"):
        tables.check({"d_k": 2, "scaling": "off"}, COLUMNS)


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    atomic.write_atomically(path, "old")
    with pytest.raises(UnicodeEncodeError):
        atomic.write_atomically(path, "\ud800")
    path.with_name("folder").mkdir()
    with pytest.raises(IsADirectoryError):
        atomic.write_atomically(path.with_name("folder"), "new")
    assert path.read_text(encoding="utf-8") == "old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["folder", "table.csv"]


def sealed(folder: Path) -> Path:
    path = folder / "shard.csv"
    shard_files.write_shard(path, SLAB, [row(), row(d_k=16)], COLUMNS)
    return path


def test_a_shard_reads_back_as_the_text_that_was_written(tmp_path: Path) -> None:
    path = sealed(tmp_path)
    assert shard_files.read_slab(path) == SLAB
    assert shard_files.read_shard(path, COLUMNS) == [
        ["2", "off", "0.1", "0.5"],
        ["16", "off", "0.1", "0.5"],
    ]


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[: len(text) // 2],
        lambda text: text.replace("0.1", "0.2", 1),
        lambda text: text.replace("2,off,0.1,0.5\n", "2,off,0.1,0.5\n" * 2, 1),
        lambda text: text.replace("16,off,0.1,0.5\n", ""),
        lambda text: text.replace("weight", "wieght"),
        lambda text: text.replace('"d_k": 2', '"d_k": 3'),
        lambda text: text.replace('"cpu": "', '"cpu": "Other '),
        lambda text: text + "\n",
        lambda text: "\x00" + text,
    ],
    ids=[
        "empty",
        "truncated",
        "digit",
        "doubled",
        "dropped",
        "header",
        "slab",
        "machine",
        "longer",
        "binary",
    ],
)
def test_any_damage_to_a_shard_is_noticed_and_named(tmp_path: Path, damage: object) -> None:
    path = sealed(tmp_path)
    path.write_text(damage(path.read_text(encoding="utf-8")), encoding="utf-8")
    with pytest.raises(tables.TableError, match=r"shard\.csv is damaged"):
        shard_files.read_shard(path, COLUMNS)


def test_a_shard_of_another_schema_is_refused(tmp_path: Path) -> None:
    with pytest.raises(tables.TableError, match="columns of another version"):
        shard_files.read_shard(sealed(tmp_path), COLUMNS[:-1])


def test_a_failing_cell_does_not_stop_the_others_and_is_named() -> None:
    measured = []

    def cell(weight: float) -> tables.Row:
        measured.append(weight)
        return {"weight": weight, "share": 0.0}

    bad = [
        ({"d_k": d_k, "scaling": "off"}, lambda d_k=d_k: cell(1.0 / (d_k - 2))) for d_k in (1, 2, 3)
    ]
    said = r"1 of 3 cells failed:\nd_k=2 scaling=off: ZeroDivisionError: "
    with pytest.raises(SystemExit, match=said):
        cells.measure_cells(bad, COLUMNS)
    assert measured == [-1.0, 1.0]


def test_merged_rows_are_sorted_as_numbers_and_each_cell_is_there_once() -> None:
    first, second = ["16", "off", "0.1", ""], ["2", "on", "0.2", ""]
    lines = list(merge.merge([first, second, first], COLUMNS))
    assert lines[1:] == ["2,on,0.2,\n", "16,off,0.1,\n"]
    assert lines[0] == ",".join(column.name for column in COLUMNS) + "\n"


def test_a_rule_of_the_same_name_in_an_old_shard_is_not_the_grids(tmp_path: Path) -> None:
    path = tmp_path / "shard.csv"
    slab = {"d_k": 2, "scaling": {"a": {"value": 1}, "b": {"value": 2}}, "seeds": [0, 1]}
    both = [row() | {"scaling": name} for name in ("a", "b")]
    shard_files.write_shard(path, slab, both, COLUMNS)
    settings = {"d_k": [2], "scaling": {"a": {"value": 1}, "b": {"value": 3}}}
    found = merge.cells_of(path, slab, settings, COLUMNS)
    assert [fields[1] for fields, _ in found] == ["a"]


@pytest.mark.parametrize("name", ["plain", 'a,b "c"', "größe"])
def test_lines_are_taken_as_they_are_only_where_no_field_is_quoted(
    tmp_path: Path, name: str
) -> None:
    path, slab = tmp_path / "shard.csv", {"d_k": 16, "scaling": {name: {}}, "seeds": [0, 1]}
    shard_files.write_shard(path, slab, [row() | {"scaling": name}], COLUMNS)
    assert (shard_files.read_lines(path, COLUMNS) is None) is (name != "plain")
    [(fields, line)] = merge.cells_of(path, slab, {"scaling": {name: {}}}, COLUMNS)
    assert fields[:2] == shard_files.read_shard(path, COLUMNS)[0][:2]
    # What the table's own writer makes of the row.
    assert line == tables.text([row() | {"scaling": name}], COLUMNS).split("\n", 1)[1]


def test_lines_of_a_damaged_shard_and_of_another_schema_are_refused(tmp_path: Path) -> None:
    path = sealed(tmp_path)
    with pytest.raises(tables.TableError, match="columns of another version"):
        shard_files.read_lines(path, COLUMNS[:-1])
    path.write_text(path.read_text("utf-8").replace("0.", "1.", 1), encoding="utf-8")
    with pytest.raises(tables.TableError, match=r"shard\.csv is damaged"):
        shard_files.read_lines(path, COLUMNS)


def test_shards_that_disagree_about_a_cell_are_refused() -> None:
    with pytest.raises(
        tables.TableError, match=r"two shards disagree about the cell \(16, 'off'\)"
    ):
        list(merge.merge([["16", "off", "0.1", ""], ["16", "off", "0.2", ""]], COLUMNS))


def test_a_table_that_was_changed_after_it_was_written_is_told_from_one_that_was_not(
    tmp_path: Path,
) -> None:
    path = tmp_path / "runs.csv"
    assert not guards.is_changed(path)
    guards.write_with_checksum(path, "a\n1\n")
    assert path.read_text(encoding="utf-8") == "a\n1\n"
    assert not guards.is_changed(path)
    path.write_text("a\n2\n", encoding="utf-8")
    assert guards.is_changed(path)
    guards.write_with_checksum(path, "a\n2\n")
    assert not guards.is_changed(path)
    path.unlink()
    assert not guards.is_changed(path)


def test_of_every_file_that_was_changed_the_folder_tells_and_nothing_reads_it(
    tmp_path: Path,
) -> None:
    figure, table = tmp_path / "figures/one.png", tmp_path / "runs.csv"
    guards.write_with_checksum(figure, b"\x89PNG")
    guards.write_with_checksum(table, "d_k\n1\n")
    assert guards.changed(tmp_path) == []
    figure.write_bytes(b"\x89PNH")
    table.write_text("d_k\n2\n", encoding="utf-8")
    assert guards.changed(tmp_path) == [table, figure]
    said = r"runs\.csv was changed after it was written; move it away or delete it"
    with pytest.raises(tables.TableError, match=said):
        frames.read(table, COLUMNS[:1])
    with pytest.raises(tables.TableError, match=said):
        dictionary.read_rows(table)
    # One that cannot be read, here because its name is one link to itself.
    figure.unlink()
    figure.symlink_to(figure)
    assert guards.is_changed(figure)


def test_a_table_without_a_digest_is_taken_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text("a\n1\n", encoding="utf-8")
    assert not guards.is_changed(path)


@pytest.mark.parametrize("guard", [b"", b"\xff\xfe", b"x"])
def test_a_digest_that_cannot_be_one_tells_of_a_change(tmp_path: Path, guard: bytes) -> None:
    path = tmp_path / "runs.csv"
    guards.write_with_checksum(path, "a\n1\n")
    (tmp_path / ".runs.csv.sha256").write_bytes(guard)
    assert guards.is_changed(path)
    (tmp_path / "folder.csv").mkdir()
    assert not guards.is_changed(tmp_path / "folder.csv")


SEEDED = (*COLUMNS[:2], Column("seed", "The unit.", read=int, axis=True), *COLUMNS[2:])


def shards_of(folder: Path) -> dict[Path, Any]:
    """Shards of two seeds each, in an order that is not that of their axes."""
    found: dict[Path, Any] = {}
    for d_k in (16, 2):
        for first in (2, 0):
            slab = {"d_k": d_k, "scaling": {"on": {}, "off": {}}, "seeds": [first, first + 2]}
            rows = [
                row(d_k, weight=d_k + seed) | {"scaling": name, "seed": seed}
                for name in ("on", "off")
                for seed in (first, first + 1)
            ]
            path = folder / f"{d_k}-{first}.csv"
            shard_files.write_shard(path, slab, rows, SEEDED)
            found[path] = slab
    return found


def test_a_table_merged_in_parts_is_the_table_merged_at_once(tmp_path: Path) -> None:
    shards = shards_of(tmp_path)
    settings: Any = {"d_k": [2, 16], "scaling": {"on": {}, "off": {}}, "seed": [0, 1, 2, 3]}
    pieces = list(merge.merged(shards, settings, SEEDED))
    # The header, and a part for each d_k.
    assert len(pieces) == 3
    rows = [one for path in shards for one in shard_files.read_shard(path, SEEDED)]
    assert "".join(pieces) == "".join(merge.merge(rows, SEEDED))
    assert [piece.split(",")[0] for piece in pieces] == ["d_k", "2", "16"]


@pytest.mark.parametrize("axis", ["several values", "no value"])
def test_an_axis_without_one_value_in_every_shard_cuts_no_table(tmp_path: Path, axis: str) -> None:
    shards = shards_of(tmp_path)
    first = next(iter(shards))
    shards[first] = shards[first] | {"d_k": [2, 16] if axis == "several values" else None}
    settings: Any = {"d_k": [2, 16], "scaling": {"on": {}, "off": {}}, "seed": [0, 1, 2, 3]}
    assert len(list(merge.merged(shards, settings, SEEDED))) == 2


def test_blocks_of_a_table_end_between_groups_and_lose_nothing(tmp_path: Path) -> None:
    rows: list[tables.Row] = [
        row(d_k, weight=d_k / 7, share=math.nan if seed else 0.5) | {"seed": seed}
        for d_k in (1, 2, 3)
        for seed in range(3)
    ]
    path = tmp_path / "runs.csv"
    guards.write_with_checksum(path, tables.text(rows, SEEDED))
    found = list(blocks.read(path, SEEDED, rows=2))
    assert [block["d_k"] for block in found] == [[1] * 3, [2] * 3, [3] * 3]
    whole = frames.read(path, SEEDED)
    for column in SEEDED:
        values = [value for block in found for value in block[column.name]]
        assert np.array_equal(
            values, whole[column.name].to_list(), equal_nan=column.name == "share"
        )
    again = blocks.text(
        (line for block in found for line in zip(*block.values(), strict=True)), SEEDED
    )
    assert "".join(again) == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["off", 'a,b "c"', "größe"])
@pytest.mark.parametrize("share", [0.25, math.nan])
def test_numbers_are_read_to_the_bit_from_lines_and_from_quoted_fields(
    tmp_path: Path, name: str, share: float
) -> None:
    drawn = np.random.default_rng(0).random(50)
    weights = [*(drawn * 10.0 ** np.arange(-300, 200, 10)).tolist(), 5e-324, 0.1 + 0.2, 1e308, -0.0]
    rows: list[tables.Row] = [
        row(d_k, weight=weight, share=share) | {"scaling": "off" if d_k < 9 else name}
        for d_k, weight in enumerate(weights)
    ]
    path = tmp_path / "runs.csv"
    guards.write_with_checksum(path, tables.text(rows, COLUMNS))
    found = list(blocks.read(path, COLUMNS, rows=20))
    read = {x.name: [value for block in found for value in block[x.name]] for x in COLUMNS}
    assert read["weight"] == weights
    assert math.copysign(1, read["weight"][-1]) == -1
    assert read["scaling"] == [one["scaling"] for one in rows]
    assert read["d_k"] == list(range(len(weights)))
    assert np.array_equal(read["share"], [share] * len(weights), equal_nan=True)
    assert {type(value) for values in read.values() for value in values} == {int, float, str}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("d_k,scaling\n", "columns of another version"),
        ("d_k,scaling,weight,share\n2,off,0.1\n", "another number of fields"),
        ("d_k,scaling,weight,share\n2,off,,0.5\n", "could not convert string to float"),
        ("d_k,scaling,weight,share\n2.5,off,1,0.5\n", "invalid literal"),
    ],
)
def test_what_is_not_a_table_is_refused_block_by_block(
    tmp_path: Path, text: str, said: str
) -> None:
    path = tmp_path / "runs.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(tables.TableError, match=rf"runs\.csv .*{said}"):
        list(blocks.read(path, COLUMNS))


def test_a_failure_between_pieces_leaves_no_file_and_no_digest(tmp_path: Path) -> None:
    def pieces() -> Iterator[str]:
        yield "first\n"
        raise ValueError("the second cannot be made")

    with pytest.raises(ValueError, match="the second"):
        guards.write_with_checksum(tmp_path / "table.csv", pieces())
    assert list(tmp_path.iterdir()) == []
    guards.write_with_checksum(tmp_path / "table.csv", iter(["first\n", "second\n"]))
    assert (tmp_path / "table.csv").read_text(encoding="utf-8") == "first\nsecond\n"
    assert not guards.is_changed(tmp_path / "table.csv")
