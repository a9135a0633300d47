"""Every promise of docs/reliability.md, and the tests that try it."""

import ast
import os
import re
from pathlib import Path

import pytest
from conftest import ROOT

from sqrtdk.storage import atomic

PAGE = ROOT / "docs/reliability.md"

PIPELINE, RECOVERY = "workflow/test_pipeline.py", "workflow/test_recovery.py"
SETUP, SECURITY, LOCK = "project/test_setup.py", "project/test_security.py", "system/test_lock.py"
DISK, MEMORY, OWN = "system/test_disk.py", "system/test_memory.py", "project/test_reliability.py"
PLANNING, TABLES = "storage/test_planning.py", "storage/test_tables.py"
JOBS = "workflow/test_shard_jobs.py"
DIGEST, RESOLVE = "storage/test_code_digest.py", "config/test_resolve.py"

ROWS = {
    "Ctrl-C, SIGTERM": [
        (PIPELINE, "test_a_stopped_run_ends_at_once_with_one_line"),
        (PIPELINE, "test_a_closed_terminal_ends_a_run_that_has_nowhere_to_say_so"),
    ],
    "`kill -9`, a crash": [
        (PIPELINE, "test_a_killed_run_goes_on_with_the_same_command"),
        (RECOVERY, "test_what_was_being_written_is_swept_and_nothing_else"),
    ],
    "the disk is full": [
        (DISK, "test_a_fault_of_a_disk_is_one_line_with_its_place_and_what_to_do"),
        (DISK, "test_a_job_that_could_not_say_why_ends_the_run_where_the_disk_is_full"),
    ],
    "a second run in the same folder": [
        (PIPELINE, "test_a_second_run_at_the_same_time_is_refused_and_a_dry_run_is_not"),
    ],
    "a shard is damaged": [
        (PIPELINE, "test_damaged_shards_are_named_and_made_again_and_no_other"),
        (PLANNING, "test_a_damaged_shard_is_left_alone_and_the_next_name_serves"),
    ],
    "a table, figure, report or configuration was edited": [
        (PIPELINE, "test_an_edited_table_is_named_and_nothing_is_made_of_it"),
        (TABLES, "test_of_every_file_that_was_changed_the_folder_tells_and_nothing_reads_it"),
    ],
    "a cell gives NaN": [
        (PIPELINE, "test_a_failing_cell_is_named_and_the_rest_is_finished"),
        (TABLES, "test_a_failing_cell_does_not_stop_the_others_and_is_named"),
    ],
    "a wrong key, value, file or option": [
        (PIPELINE, "test_a_mistake_is_answered_with_one_line_before_any_job"),
        ("config/test_mistakes.py", "test_a_command_given_wrong_answers_in_one_line"),
    ],
    "a cell does not fit into memory": [
        (RESOLVE, "test_the_memory_message_names_what_it_would_need_and_what_is_free"),
        (MEMORY, "test_the_tightest_limit_above_holds"),
    ],
    "a user id without a name": [
        (SETUP, "test_the_smoke_run_works_for_an_unknown_user_without_home_and_network"),
    ],
    "a read-only checkout": [
        (SETUP, "test_a_checkout_that_cannot_be_written_to_computes_into_another_folder"),
    ],
    "a copied or moved checkout": [
        (SETUP, "test_a_copy_runs_its_own_code_and_works_without_the_original"),
        (SETUP, "test_a_moved_folder_works_without_network"),
    ],
    "an environment with the code of another folder": [
        (SETUP, "test_snakemake_with_the_code_of_another_folder_is_refused_in_one_line"),
    ],
    "an interrupted or damaged set-up": [
        (SETUP, "test_a_half_finished_or_damaged_environment_is_set_up_again"),
        (SETUP, "test_a_set_up_that_was_killed_is_done_again_and_a_complete_one_is_used"),
    ],
    "a set-up that fails": [
        (SETUP, "test_a_set_up_that_fails_leaves_the_environment_as_it_was"),
    ],
    "settings of pip, uv and Python": [
        (SETUP, "test_uv_is_installed_again_after_an_interrupted_set_up_and_no_setting_moves_it"),
        (SETUP, "test_variables_are_kept_if_they_only_say_where_to_fetch_from"),
    ],
    "`touch pyproject.toml`": [
        (SETUP, "test_a_finished_environment_is_used_without_network_after_files_were_touched"),
    ],
    "another current folder": [
        (SETUP, "test_files_on_the_command_line_are_relative_to_where_the_user_is"),
        (SETUP, "test_a_folder_that_was_deleted_is_no_place_but_the_project_runs"),
    ],
    "a folder name with spaces": [(SETUP, "test_a_folder_may_have_any_other_name")],
    "Python before 3.11": [
        (SETUP, "test_an_old_python_is_told_which_one_is_needed"),
        (SETUP, "test_a_package_that_snakemake_does_not_find_is_named_with_the_remedy"),
    ],
    "a folder name with `:`": [
        (SETUP, "test_a_folder_that_python_cannot_search_is_named"),
        (SETUP, "test_a_folder_that_snakemake_takes_for_a_pattern_is_named"),
    ],
    "Snakemake without this package": [
        (SETUP, "test_snakemake_starts_where_the_project_is_not_installed"),
        (SETUP, "test_jobs_in_environments_of_conda_find_the_project_by_its_path"),
    ],
}
"""The first words of each row of the two tables of events and places."""

SENTENCES = {
    "Every file is written under a temporary name, flushed to disk": [
        (OWN, "test_a_file_is_flushed_under_a_temporary_name_before_it_gets_its_own"),
        (DISK, "test_a_full_disk_leaves_no_part_of_a_file_and_the_old_one"),
    ],
    "A shard ends with its row count and SHA-256": [
        (TABLES, "test_any_damage_to_a_shard_is_noticed_and_named"),
    ],
    "A complete shard is never computed again": [
        (RECOVERY, "test_a_whole_shard_is_finished_whatever_snakemake_saw"),
    ],
    "Its name is a hash of the request and of the code": [
        (PLANNING, "test_shards_that_other_code_made_do_not_serve"),
        (PLANNING, "test_other_columns_or_a_strange_file_make_no_shard"),
        (DIGEST, "test_any_other_change_is_noticed"),
    ],
    "ignores comments, docstrings and error messages": [
        (DIGEST, "test_docstrings_comments_hints_and_messages_are_left_out"),
        (PIPELINE, "test_edited_docstrings_comments_and_errors_run_nothing_again"),
    ],
    "Every other file of a run has its SHA-256 next to it": [
        (
            TABLES,
            "test_a_table_that_was_changed_after_it_was_written_is_told_from_one_that_was_not",
        ),
    ],
    "One run at a time holds `results/.lock`": [
        (LOCK, "test_a_second_run_is_refused_until_the_first_is_dead"),
    ],
    "which only one process can do": [
        (LOCK, "test_without_locks_one_run_takes_over_wherever_it_is_interrupted"),
    ],
    "A dead process on the same machine holds no lock": [
        (LOCK, "test_without_locks_a_dead_process_of_this_machine_holds_nothing"),
    ],
    "after 2 minutes without a touch": [
        (LOCK, "test_without_locks_what_gives_no_sign_of_life_holds_nothing"),
    ],
    "Jobs that need much memory reserve several cores": [
        (JOBS, "test_a_job_occupies_the_cores_of_its_share_of_the_memory"),
    ],
    "Every process uses one BLAS thread": [
        ("project/test_public.py", "test_the_pipeline_gives_its_jobs_one_thread"),
    ],
    "never evaluates or unpickles": [(SECURITY, "test_no_code_makes_code_of_data")],
    "The project's profile disables this": [
        (SECURITY, "test_python_in_a_config_file_is_not_run_by_snakemake_either"),
    ],
    "A symbolic link that leads out of": [
        (LOCK, "test_links_that_lead_out_are_found_and_others_are_not"),
    ],
    "Shell commands contain only quoted parameters": [
        (SECURITY, "test_shell_commands_hold_only_what_is_quoted_or_of_safe_letters"),
    ],
    "The report escapes everything it shows": [
        (SECURITY, "test_what_a_report_is_made_of_is_shown_as_text"),
        (SECURITY, "test_the_page_allows_itself_nothing"),
    ],
    "Every locked dependency has its SHA-256": [
        (SECURITY, "test_every_locked_dependency_has_a_digest"),
    ],
}
"""Promises in the text of the page."""


def text() -> str:
    return " ".join(PAGE.read_text(encoding="utf-8").split())


def test_every_row_of_the_page_has_tests_and_every_listed_promise_is_on_the_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    tables = [
        re.split(r"\|(?:---\|)+\n", page.split(f"\n## {title}\n")[1])[1].split("\n\n")[0]
        for title in ("What happens when", "Where it starts")
    ]
    rows = [line[2:] for table in tables for line in table.splitlines() if line.startswith("| ")]
    assert len(rows) == len(ROWS)
    for row in rows:
        assert sum(row.startswith(words) for words in ROWS) == 1, row
    for sentence in SENTENCES:
        assert sentence in text()


def test_every_test_of_a_promise_exists() -> None:
    listed = {one for tests in (*ROWS.values(), *SENTENCES.values()) for one in tests}
    for file in {file for file, _ in listed}:
        tree = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))
        there = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert {name for other, name in listed if other == file} <= there, file


def test_a_file_is_flushed_under_a_temporary_name_before_it_gets_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, seen = tmp_path / "runs.csv", []
    flush, rename = os.fsync, os.replace

    def fsync(handle: int) -> None:
        (temporary,) = tmp_path.iterdir()
        seen.append(("flushed", temporary.name.endswith(atomic.PARTIAL), temporary.read_bytes()))
        flush(handle)

    def replace(source: str, target: Path) -> None:
        seen.append(("renamed", target == path, Path(source).read_bytes()))
        rename(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    atomic.write_atomically(path, "whole")
    assert seen == [("flushed", True, b"whole"), ("renamed", True, b"whole")]
    assert [one.name for one in tmp_path.iterdir()] == ["runs.csv"]
