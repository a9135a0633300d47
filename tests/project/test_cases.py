"""Every case of issue 11 has a test (tests/cases.md), and the cases that are sentences."""

import ast
import os
import re

from conftest import ROOT

from sqrtdk.report.gallery import read_caption

CASES = [
    *(f"R{n}" for n in range(1, 26)),
    *(f"L{n}" for n in range(1, 8)),
    *(f"V{n}" for n in range(1, 23)),
]
FILES = [path for path in sorted((ROOT / "tests").rglob("*.py")) if "temperature" not in path.parts]


def test_every_case_has_a_test_that_exists() -> None:
    text = (ROOT / "tests/cases.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([RLV]\d+) \| (.*) \|$", text, flags=re.MULTILINE)
    assert [case for case, _ in rows] == CASES
    there: dict[str, str] = {}
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        names = re.findall(r"^def (test_\w+)", text, flags=re.M)
        # Of two tests of one name, a case would not say which.
        there |= {name: "" if name in there else text for name in names}
    for case, tests in rows:
        found = re.findall(r"(test_\w+)(?: `([^`]+)`)?(?:, |$)", tests)
        assert ", ".join(f"{name} `{part}`" if part else name for name, part in found) == tests
        for name, part in found:
            assert there.get(name), (case, name)
            assert part in there[name], (case, part)


def test_no_test_waits_for_a_fixed_time() -> None:
    # Short pauses between looks at a condition are fine; a limit is HANG, or set by the test.
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("sleep"):
                seconds = node.args[0] if node.args else None
                assert not isinstance(seconds, ast.Constant) or float(str(seconds.value)) < 1, (
                    f"{path}:{node.lineno}"
                )


def test_the_docs_promise_no_profile_and_no_executable_that_is_not_there() -> None:
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]:
        text = path.read_text(encoding="utf-8")
        for profile in re.findall(r"profiles/([a-z]\w*)", text):
            assert (ROOT / "profiles" / profile).is_dir(), path
        assert "./run.py" not in text or os.access(ROOT / "run.py", os.X_OK), path


def test_sentences_that_were_wrong_are_gone() -> None:
    wrong = (
        *("Real attention weights", "keys in the nearest quarter"),
        "gradient that reaches a position is its weight",
    )
    for folder in ("src", "docs"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".py", ".md", ".rst", ".j2"):
                text = path.read_text(encoding="utf-8")
                assert not any(words in text for words in wrong), path


def test_random_weights_are_named_as_such() -> None:
    folder = ROOT / "src/sqrtdk/experiments/scaling/captions"
    caption = read_caption(folder / "scaling-weights.rst", "")
    assert caption.title == "Attention weights of one random draw"
    assert "random queries and keys, not of a trained model" in caption.paragraphs[0]
