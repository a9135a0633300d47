"""A disk that is full, read-only or failing: one line, and no half-written file."""

import errno
import logging
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NoReturn

import pytest
from snakemake.settings.types import OutputSettings
from snakemake_interface_logger_plugins.common import LogEvent

from sqrtdk import cli
from sqrtdk.storage import atomic
from sqrtdk.system import disk, errors, interrupts
from sqrtdk.workflow import progress
from sqrtdk.workflow.time_left import TimeLeft


def failing(number: int) -> Any:
    """Return a replacement of a system call that fails."""

    def call(*arguments: object, **options: object) -> NoReturn:
        raise OSError(number, os.strerror(number))

    return call


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The end of a run raises SystemExit with its line; a run's folder with results/ is entered."""

    def end(line: str, code: int) -> NoReturn:
        assert code == 1
        raise SystemExit(line)

    monkeypatch.setattr(interrupts, "end", end)
    monkeypatch.chdir(tmp_path)
    Path("results").mkdir()


@pytest.mark.parametrize("number", disk.MESSAGES)
def test_a_fault_of_a_disk_is_one_line_with_its_place_and_what_to_do(number: int) -> None:
    error = OSError(number, os.strerror(number), "/results/x.csv")
    for text in (str(error), f"WorkflowError:\nCould not do it ({error}).\nSee the manual."):
        line = disk.explain_os_error(text)
        assert line is not None
        assert "\n" not in line
        assert line.startswith("sqrtdk: ")
        assert "/results/x.csv" in line
        assert "then run the same command again" in line


def test_a_fault_without_a_place_is_one_of_the_folder_of_the_run() -> None:
    line = disk.explain_os_error(str(OSError(errno.ENOSPC, "No space left on device")))
    assert line is not None
    assert line.startswith(f"sqrtdk: the disk of {Path.cwd()} is full; ")


@pytest.mark.parametrize("text", ["", "[Errno x]", str(OSError(errno.ENOENT, "No such file"))])
def test_other_errors_are_not_the_disks(text: str) -> None:
    assert disk.explain_os_error(text) is None


@pytest.mark.parametrize("call", ["fsync", "chmod", "replace"])
def test_a_full_disk_leaves_no_part_of_a_file_and_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    path = tmp_path / "runs.csv"
    path.write_text("old", encoding="utf-8")
    monkeypatch.setattr(os, call, failing(errno.ENOSPC))
    with pytest.raises(OSError, match=r"runs\.csv"):
        atomic.write_atomically(path, "new")
    monkeypatch.undo()
    assert path.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]


def job_error(log: Path) -> logging.LogRecord:
    """Return Snakemake's log record of a failed job."""
    record = logging.LogRecord(
        "", logging.ERROR, "", 0, "Error in rule merge, jobid: 1", None, None
    )
    vars(record).update({"event": LogEvent.JOB_ERROR, "log": [str(log)]})
    return record


@pytest.mark.parametrize(
    ("last", "said"),
    [
        ("OSError: [Errno 28] No space left on device: '/r/x.csv'", "the disk of /r/x.csv is full"),
        ("OSError: [Errno 30] Read-only file system: '/r/x'", "/r/x is on a read-only disk"),
        ("sqrtdk: results/x.csv is damaged; delete it", "results/x.csv is damaged"),
    ],
)
@pytest.mark.usefixtures("ends")
def test_a_job_that_names_a_file_in_its_last_line_ends_the_run_with_it(
    tmp_path: Path, last: str, said: str
) -> None:
    log = tmp_path / "merge.log"
    log.write_text(f"Traceback (most recent call last):\n  ...\n{last}\n", encoding="utf-8")
    with pytest.raises(SystemExit, match=f"^sqrtdk: {said}"):
        progress.abort_on_fatal(job_error(log))


@pytest.mark.usefixtures("ends")
def test_a_job_that_could_not_say_why_ends_the_run_where_the_disk_is_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = Path("results/none.log")
    # An error of the program's own, with room on the disk, is Snakemake's to tell.
    progress.abort_on_fatal(job_error(log))
    monkeypatch.setattr(tempfile, "TemporaryFile", failing(errno.ENOSPC))
    with pytest.raises(SystemExit, match=r"^sqrtdk: the disk of .*/results is full"):
        progress.abort_on_fatal(job_error(log))


@pytest.mark.usefixtures("ends")
def test_an_error_of_snakemakes_own_files_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "Failed to set marker file ([Errno 28] No space left on device)."
    record = logging.LogRecord("", logging.WARNING, "", 0, text, None, None)
    with pytest.raises(SystemExit, match=f"^sqrtdk: the disk of {Path.cwd()} is full"):
        progress.abort_on_fatal(record)
    # As an error before the Snakefile is read it is one of a file that the command line names.
    vars(record)["event"] = LogEvent.ERROR
    monkeypatch.setattr(progress.RunState, "read", False)
    progress.abort_on_fatal(record)


@pytest.mark.usefixtures("ends")
def test_a_changed_file_is_refused_also_where_nothing_is_to_be_done(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress.RunState, "refusal", "sqrtdk: x.csv was changed")
    text = "Nothing to be done (all requested files are present and up to date)."
    record = logging.LogRecord("", logging.INFO, "", 0, text, None, None)
    handler = object.__new__(progress.LogHandler)
    handler.formatter, handler.unfinished = None, False
    handler.common_settings = OutputSettings(dryrun=True)
    handler.follow(record)
    assert text in capsys.readouterr().err
    handler.common_settings = OutputSettings()
    with pytest.raises(SystemExit, match=r"^sqrtdk: x\.csv was changed"):
        handler.follow(record)


class FullDisk:
    """A replacement of a file on a full disk."""

    write = flush = staticmethod(failing(errno.ENOSPC))


@pytest.mark.usefixtures("ends")
def test_a_log_of_progress_on_a_full_disk_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress.RunState, "log", FullDisk())
    handler = object.__new__(progress.LogHandler)
    handler.began, handler.time_left = 0.0, TimeLeft()
    with pytest.raises(SystemExit, match=r"is full; make room"):
        handler.print_progress(1, 2)


def test_by_hand_a_full_disk_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["run", "--help"])
    monkeypatch.setattr("builtins.print", print_to_full_disk)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said == "sqrtdk: cannot write to standard output: No space left on device\n"
    with pytest.raises(SystemExit):
        errors.exit_with(OSError(errno.ENOSPC, "No space left on device", "/x/rows.csv"))
    assert capsys.readouterr().err.startswith("sqrtdk: the disk of /x/rows.csv is full; ")


def test_a_standard_output_that_takes_nothing_is_said_once() -> None:
    reads, writes = os.pipe()
    os.close(reads)
    done = subprocess.run(
        [sys.executable, "-m", "sqrtdk.run", "--help"],
        stdout=writes, stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    os.close(writes)
    assert done.returncode == 2
    assert done.stderr == "sqrtdk: cannot write to standard output: Broken pipe\n"


def print_to_full_disk(*words: str, file: Any = None, **options: Any) -> None:
    """Replace `print`: standard output is on a full disk and standard error is not."""
    if file is None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    file.write(" ".join(words) + "\n")
