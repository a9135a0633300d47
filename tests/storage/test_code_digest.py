"""The content of a digest of code."""

import ast
from pathlib import Path

import pytest

from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.storage import code_digest

PLAIN = """
from dataclasses import dataclass
LIMIT = 3
@dataclass
class Law:
    name: str
    size: int = 1
def main(x, *, tail=None):
    if x > LIMIT:
        raise ValueError(f"{x!r:>{LIMIT}} is above " f"{LIMIT}")
    y = f"a" "b" f"{x:.2f}"
    return (x ** -0.5, y)
COLUMN = Column("x", "Meaning.", read=int)
if __name__ == "__main__":
    main(1)
"""

EXPLAINED = PLAIN.replace("LIMIT = 3", 'LIMIT: int = 3  # why\n"""What it is."""').replace(
    "def main(x, *, tail=None):",
    'def main(x: float, *, tail: str | None = None) -> tuple[float, str]:\n    """Say it."""',
)


def digest(folder: Path, text: str, *, measured: bool = False) -> str:
    path = folder / f"{abs(hash(text))}.py"
    path.write_text(text, encoding="utf-8")
    file = code_digest._file(path)
    return code_digest._digest([file.measured if measured else file.code])


@pytest.mark.parametrize("measured", [False, True])
def test_docstrings_comments_hints_and_messages_are_left_out(
    tmp_path: Path, measured: bool
) -> None:
    plain = digest(tmp_path, PLAIN, measured=measured)
    assert digest(tmp_path, EXPLAINED, measured=measured) == plain
    assert digest(tmp_path, PLAIN.replace("is above", "exceeds"), measured=measured) == plain


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("LIMIT = 3", "LIMIT = 4"),
        ("LIMIT = 3", "LIMIT = 3.0"),
        ("name: str", "name: int"),
        ("size: int = 1", "size: int = 2"),
        ("@dataclass", "@dataclass(frozen=True)"),
        ("read=int", "read=str"),
        ('"x", "Meaning."', '"y", "Meaning."'),
    ],
)
@pytest.mark.parametrize("measured", [False, True])
def test_any_other_change_is_noticed(tmp_path: Path, old: str, new: str, measured: bool) -> None:
    before, after = (
        digest(tmp_path, x, measured=measured) for x in (PLAIN, PLAIN.replace(old, new))
    )
    assert before != after


def test_what_explains_a_column_is_no_part_of_what_is_measured(tmp_path: Path) -> None:
    other = PLAIN.replace("Meaning.", "Other meaning.")
    assert digest(tmp_path, other, measured=True) == digest(tmp_path, PLAIN, measured=True)
    assert digest(tmp_path, other) != digest(tmp_path, PLAIN)


def test_a_digest_is_the_same_on_every_python_version() -> None:
    # From Python 3.11.7, 3.12.1 and 3.13.0, whose `ast.dump` of this text differ.
    assert code_digest._digest([code_digest.serialize(ast.parse(PLAIN))]) == "145e277c22a9"


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_the_modules_that_word_errors_are_imported_and_in_no_digest(experiment: str) -> None:
    module = EXPERIMENTS[experiment].measured_by
    left_out = set(code_digest.closure(module)) - set(code_digest._computing(module))
    assert {path.stem for path in left_out} == {"__init__", "disk", "errors", "stdio"}


NESTED = """
def f(x):
    try:
        match x:
            case 1:
                {wording}
                with open(x) as file:
                    for line in file:
                        while line:
                            y{hint} = 1
            case _:
                pass
    except OSError:
        {wording}
    else:
        {wording}
    finally:
        async def g(z{hint}):
            {wording}
"""


def test_wording_and_hints_are_left_out_in_every_kind_of_block(tmp_path: Path) -> None:
    plain = NESTED.format(wording="pass", hint="")
    # An empty block is not the same as one with a `pass`, so the text is beside one.
    worded = NESTED.format(wording='"Say it."; pass', hint=": int")
    assert digest(tmp_path, worded) == digest(tmp_path, plain)


def test_imports_are_found_in_every_kind_of_block(tmp_path: Path) -> None:
    path = tmp_path / "nested.py"
    text = NESTED.format(wording="import sqrtdk.schema", hint="").replace(
        "y = 1", "import sqrtdk.run"
    )
    path.write_text(text, encoding="utf-8")
    assert code_digest._file(path).imported.count("sqrtdk.schema") == 4
    assert "sqrtdk.run" in code_digest._file(path).imported
