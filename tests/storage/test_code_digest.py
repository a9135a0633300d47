"""The content of a digest of code."""

import ast
import functools
import sys
from collections.abc import Callable
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
    text = code_digest.serialize(ast.parse(PLAIN))
    assert code_digest._digest([code_digest._hashed(text)]) == "145e277c22a9"


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


class Package:
    """A package of one file, and processes that read it one after the other."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.file, self.place = folder / "law.py", folder / "kept.json"
        self.file.write_text(PLAIN, encoding="utf-8")
        self._patch = monkeypatch
        monkeypatch.setattr(code_digest, "PACKAGE", folder)
        monkeypatch.setattr(code_digest, "_place", lambda: self.place)
        monkeypatch.setattr(sys, "dont_write_bytecode", False)

    def parsed(self) -> set[str]:
        """Have the next process read the file, and return what it had to parse."""
        known = functools.cache(code_digest._known.__wrapped__)
        self._patch.setattr(code_digest, "_known", known)
        self._patch.setattr(code_digest, "_parsed", {})
        found = code_digest._file.__wrapped__(self.file)
        # Whatever is kept, it is what the file says.
        assert found == code_digest._read(self.file.read_text(encoding="utf-8"))
        parsed = set(code_digest._parsed)
        code_digest.keep_parsed()
        return parsed


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Package:
    return Package(tmp_path, monkeypatch)


def test_what_one_process_has_parsed_the_next_one_need_not(package: Package) -> None:
    assert package.parsed() == {"law.py"}
    assert package.parsed() == set()
    # A comment changes no digest, but what is kept is of the whole text.
    package.file.write_text(PLAIN + "# more\n", encoding="utf-8")
    assert package.parsed() == {"law.py"}
    assert package.parsed() == set()
    package.file.write_text(PLAIN.replace("LIMIT = 3", "LIMIT = 4"), encoding="utf-8")
    assert package.parsed() == {"law.py"}


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[: len(content) // 2],
        lambda content: content[:-9] + bytes([content[-9] ^ 1]) + content[-8:],
        lambda content: bytes(range(256)),
        # As another version of this module would have written it, which seals other rules.
        lambda content: b"0" * 64 + content[64:],
    ],
    ids=["empty", "cut", "a flipped bit", "no text", "of other rules"],
)
def test_what_is_kept_is_not_used_if_it_is_damaged_or_of_other_rules(
    package: Package, damage: Callable[[bytes], bytes]
) -> None:
    package.parsed()
    package.place.write_bytes(damage(package.place.read_bytes()))
    assert package.parsed() == {"law.py"}
    assert package.parsed() == set()


def test_where_nothing_can_be_kept_every_process_parses(
    package: Package, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert package.parsed() == package.parsed() == {"law.py"}
    assert not package.place.exists()
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    # Nothing can be created below a file, for root neither.
    package.place = Path("/dev/null/kept.json")
    assert package.parsed() == package.parsed() == {"law.py"}


def test_of_files_that_are_gone_nothing_is_kept(package: Package) -> None:
    package.parsed()
    package.file = package.file.rename(package.file.with_name("other.py"))
    assert package.parsed() == {"other.py"}
    assert "law.py" not in package.place.read_text(encoding="utf-8")
