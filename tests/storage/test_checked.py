"""What was found whole before is not read again, and every change is seen."""

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sqrtdk.storage import checked, guards

HOUR = 3600 * 10**9


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> int:
    """Let the clock show an hour later, when the files of a test are old."""
    now = time.time_ns() + HOUR
    monkeypatch.setattr(time, "time_ns", lambda: now)
    return now


def count(record: Path, path: Path, *, result: bool = True) -> int:
    """Check a file with a record, and return how often its content was looked at."""
    looks = []

    def look() -> bool:
        looks.append(path)
        return result

    with checked.remembered(record):
        assert checked.holds([path], look) is (result if looks else True)
    return len(looks)


def edit_in_place(path: Path) -> None:
    with path.open("r+") as file:
        file.write("B")


def replace(path: Path) -> None:
    other = path.with_name("other")
    other.write_text("B" * 10, encoding="utf-8")
    os.replace(other, path)


def restore_the_time(path: Path) -> None:
    before = path.stat()
    edit_in_place(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = path.stat()
    assert (after.st_mtime_ns, after.st_size) == (before.st_mtime_ns, before.st_size)


def grow(path: Path) -> None:
    with path.open("a") as file:
        file.write("B")


@pytest.mark.parametrize("change", [edit_in_place, replace, restore_the_time, grow])
def test_a_file_is_looked_at_once_and_again_after_each_change(
    tmp_path: Path, later: int, change: Callable[[Path], None]
) -> None:
    path, record = tmp_path / "file", tmp_path / "record"
    path.write_text("A" * 10, encoding="utf-8")
    assert [count(record, path) for _ in range(3)] == [1, 0, 0]
    # The times of a file have the resolution of the kernel's clock, 10 ms or less.
    before = path.stat().st_ctime_ns
    while path.stat().st_ctime_ns == before:
        os.utime(path)
    assert [count(record, path) for _ in range(2)] == [1, 0]
    moment = path.stat().st_ctime_ns
    while (tmp_path / "clock").write_text("") or (tmp_path / "clock").stat().st_ctime_ns == moment:
        pass
    change(path)
    assert [count(record, path) for _ in range(2)] == [1, 0]


def test_a_copied_folder_is_looked_at_again(tmp_path: Path, later: int) -> None:
    folder, other = tmp_path / "one", tmp_path / "two"
    folder.mkdir()
    (folder / "file").write_text("A", encoding="utf-8")
    assert [count(tmp_path / "record", folder / "file") for _ in range(2)] == [1, 0]
    shutil.copytree(folder, other)
    shutil.rmtree(folder)
    os.rename(other, folder)
    assert count(tmp_path / "record", folder / "file") == 1


def test_a_young_file_is_not_remembered(tmp_path: Path) -> None:
    # It may change again without another time.
    path = tmp_path / "file"
    path.write_text("A", encoding="utf-8")
    assert [count(tmp_path / "record", path) for _ in range(2)] == [1, 1]


def test_a_file_that_is_not_whole_is_not_remembered(tmp_path: Path, later: int) -> None:
    path = tmp_path / "file"
    path.write_text("A", encoding="utf-8")
    assert [count(tmp_path / "record", path, result=False) for _ in range(2)] == [1, 1]
    assert not (tmp_path / "record").exists()


@pytest.mark.parametrize("text", ["", "[1]", "{", '{"file": 3}'])
def test_a_damaged_record_is_an_empty_one(tmp_path: Path, later: int, text: str) -> None:
    path, record = tmp_path / "file", tmp_path / "record"
    path.write_text("A", encoding="utf-8")
    record.write_text(text, encoding="utf-8")
    assert [count(record, path) for _ in range(2)] == [1, 0]


def test_a_table_is_changed_if_it_or_its_digest_is(tmp_path: Path, later: int) -> None:
    table, record = tmp_path / "table.csv", tmp_path / "record"
    guards.write_with_checksum(table, "a,b\n")
    for change in (table, tmp_path / ".table.csv.sha256"):
        with checked.remembered(record):
            assert guards.changed(tmp_path) == []
        text = change.read_text("utf-8")
        change.write_text("0" + text[1:], encoding="utf-8")
        with checked.remembered(record):
            assert guards.changed(tmp_path) == [table]
        change.write_text(text, encoding="utf-8")
        with checked.remembered(record):
            assert guards.changed(tmp_path) == []


def test_without_a_record_each_check_looks(tmp_path: Path) -> None:
    found = [checked.holds([tmp_path], lambda: False), checked.holds([tmp_path], lambda: True)]
    assert found == [False, True]
