"""The kit of known answers: its digits, its runner, and what it says of published formulas."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ROOT, Run, command

from sqrtdk.known_answers import check, elsewhere, make
from sqrtdk.tensors.measurement import measure


def test_the_file_holds_what_mpmath_gives() -> None:
    assert make.PATH.read_text(encoding="utf-8") == make.text()


def test_there_are_more_than_forty_cases_of_all_kinds() -> None:
    cases = check.cases()
    assert len({case["name"] for case in cases}) == len(cases) >= 40
    used = {name for case in cases for name in case["arguments"]}
    assert used == {*("scale", "is_causal", "attn_mask", "window", "sink", "softcap", "enable_gqa")}
    assert {case["dtype"] for case in cases} == {"float64", "float32", "float16", "bfloat16"}


def test_the_definitions_give_every_answer() -> None:
    results = list(check.check(check.reference))
    assert all(isinstance(one, check.Result) and one.passed for one in results)
    assert len(results) == len(check.QUANTITIES) * len(check.cases())


@pytest.mark.parametrize("case", check.cases(), ids=lambda case: case["name"])
def test_measure_gives_the_means_of_the_answers(case: dict[str, Any]) -> None:
    (q, k, v), arguments = check.inputs(case)
    found = measure(q, k, v, min_keys=1, **arguments)
    answers = {name: np.array(x, dtype=float) for name, x in case["answers"].items()}
    rows = {"rel": 1e-4 if q.dtype != np.float64 else 1e-6, "abs": 1e-12, "nan_ok": True}
    # A row that sees no key does not count.
    seen = ~np.isnan(answers["entropy_nats"])
    if case["arguments"].get("sink") is None:
        for name in ("entropy_nats", "max_weight"):
            wanted = [x[kept].mean() for x, kept in zip(answers[name], seen, strict=True)]
            assert found[name].to_numpy() == pytest.approx(wanted, **rows)
    assert found.max_logit.to_numpy() == pytest.approx(answers["max_logit"], **rows)
    assert found.logit_std.to_numpy() == pytest.approx(answers["logit_std"], **rows)


def test_torch_gives_every_output_that_it_can_be_asked_for() -> None:
    torch = pytest.importorskip("torch")

    def attend(q: Any, k: Any, v: Any, **arguments: Any) -> Any:
        if {"window", "sink", "softcap"} & arguments.keys():
            raise TypeError("got an unexpected keyword argument")
        wide = [
            torch.tensor(np.nan_to_num(x.astype(np.float64), posinf=0, neginf=0)) for x in (q, k, v)
        ]
        mask = arguments.pop("attn_mask", None)
        given = {} if mask is None else {"attn_mask": torch.tensor(mask)}
        sdpa = torch.nn.functional.scaled_dot_product_attention
        found = sdpa(*(x[None] for x in wide), **given, **arguments)[0].numpy()
        # PyTorch's answer for a row that sees no key depends on its version.
        return np.nan_to_num(found) if mask is not None else found

    results = [one for one in check.check(attend) if isinstance(one, check.Result)]
    assert len(results) > 35
    assert [one for one in results if not one.passed] == []


def test_every_published_formula_is_wrong_by_a_number() -> None:
    found = elsewhere.rows()
    assert len(found) >= 6
    for name, _, _, theirs, right, _ in found:
        assert math.isfinite(right), name
        assert not abs(theirs - right) < 1e-9, name


def test_a_published_formula_fails_the_kit() -> None:
    def shifted_wrongly(q: Any, k: Any, v: Any, **arguments: Any) -> Any:
        if arguments.keys() - {"scale"}:
            raise TypeError("unexpected keyword argument")
        return elsewhere.maximum_from_zero(*(x.astype(np.float64) for x in (q, k, v)), **arguments)

    failed = {
        one.case
        for one in check.check(shifted_wrongly)
        if isinstance(one, check.Result) and not one.passed
    }
    assert failed == {"negative logits", "very negative logits"}


def run(folder: Path, *arguments: str) -> Run:
    return command(folder, "sqrtdk.known_answers", *arguments)


def test_the_command_tries_a_function_of_this_folder(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import numpy as np\n"
        "def output(q, k, v, scale=None):\n"
        "    z = (q @ k.swapaxes(-1, -2)) * (q.shape[-1] ** -0.5 if scale is None else scale)\n"
        "    e = np.exp(z - z.max(-1, keepdims=True))\n"
        "    return e / e.sum(-1, keepdims=True) @ v\n",
        encoding="utf-8",
    )
    done = run(tmp_path, "mine:output")
    assert "soft-cap: not tried" in done.stdout
    # float16 arrays are computed in float16 there.
    assert "float16" in done.stdout
    assert done.stdout.splitlines()[-1].endswith("failed")
    assert done.returncode == 1
    assert run(tmp_path, "sqrtdk.known_answers.check:reference").returncode == 0


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("mine", "'mine' is not allowed; allowed: your_module:function"),
        ("no_such:f", "no_such:f: No module named 'no_such'"),
        ("math:f", "math:f: module 'math' has no attribute 'f'"),
        ("math:pi", "math:pi is not a function"),
    ],
)
def test_a_name_that_is_no_function_is_one_line(tmp_path: Path, word: str, said: str) -> None:
    done = run(tmp_path, word)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [f"sqrtdk: {said}"]


def test_the_page_has_the_table_that_the_command_prints() -> None:
    page = (ROOT / "docs/known-answers.md").read_text(encoding="utf-8")
    assert elsewhere.table() in page


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            "def f(q, k, v): raise ValueError('no')",
            "case 'one key': the function raised ValueError",
        ),
        ("def f(q, k, v): raise SystemExit(0)", "case 'one key': the function raised SystemExit"),
        ("raise SystemExit(0)", "mine:f: 0"),
        ("1 / 0", "mine:f: division by zero"),
        ("def f(", "mine:f: "),
    ],
)
def test_a_function_that_fails_is_named_with_its_case(tmp_path: Path, body: str, said: str) -> None:
    (tmp_path / "mine.py").write_text(f"{body}\n", encoding="utf-8")
    done = run(tmp_path, "mine:f")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("sqrtdk: ")
    assert said in line


def test_what_is_no_answer_fails_and_what_takes_too_little_is_not_tried(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "def word(q, k, v, **_): return {'entropy_nats': 'abc'}\ndef two(q, k): return q\n",
        encoding="utf-8",
    )
    word, two = run(tmp_path, "mine:word"), run(tmp_path, "mine:two")
    assert word.returncode == two.returncode == 1
    assert word.stdout.splitlines()[-1] == "0 passed, 51 failed"
    assert two.stdout.splitlines()[-1] == "0 passed, 0 failed"
