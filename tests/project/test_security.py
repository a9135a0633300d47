"""External input is data: never code, never a command, never a path outside results/."""

import ast
import csv
import html
import io
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, snakemake
from markupsafe import Markup
from report.test_page import Page, build, check, shown_svg, table

from campaigns.mistakes import FILES
from sqrtdk.config import compose, entries, errors, resolve, yaml_reader
from sqrtdk.report import svg
from sqrtdk.report.page import render

SOURCES = sorted(
    path for name in ("src", "benchmarks", "campaigns") for path in (ROOT / name).rglob("*.py")
)

MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "code"}
"""Modules that build objects, or execute code, from bytes that they read."""

CALLS = {
    "eval", "exec", "compile", "os.system", "os.popen", "subprocess.getoutput",
    "subprocess.getstatusoutput", "yaml.load", "yaml.load_all", "yaml.full_load",
    "yaml.unsafe_load", "pd.read_pickle", "pd.eval", "np.load", "runpy.run_path",
}  # fmt: skip


@pytest.mark.parametrize("path", [*SOURCES, ROOT / "run.py"], ids=str)
def test_no_code_makes_code_of_data(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            assert not {alias.name.split(".")[0] for alias in node.names} & MODULES
        elif isinstance(node, ast.ImportFrom):
            assert (node.module or "").split(".")[0] not in MODULES
        elif isinstance(node, ast.Call):
            # NumPy reads no pickles where it is told so.
            plain = any(ast.unparse(word) == "allow_pickle=False" for word in node.keywords)
            assert ast.unparse(node.func) not in CALLS - ({"np.load"} if plain else set())
            shell = [word.value for word in node.keywords if word.arg == "shell"]
            assert all(isinstance(one, ast.Constant) and not one.value for one in shell)


def snakefiles() -> str:
    """The text of all rules."""
    files = (ROOT / "Snakefile", *sorted((ROOT / "rules").glob("*.smk")))
    return "\n".join(path.read_text(encoding="utf-8") for path in files)


def shell_commands() -> list[str]:
    """Return the text of every `shell:` of the Snakefile."""
    text = snakefiles()
    found = re.findall(r"^ +shell:\n((?: +(?:#|[f'\"]).*\n)+)", text, flags=re.MULTILINE)
    return [re.sub(r"^ +#.*\n", "", one, flags=re.MULTILINE) for one in found]


def test_shell_commands_hold_only_what_is_quoted_or_of_safe_letters() -> None:
    commands = shell_commands()
    assert len(commands) > 15
    text = snakefiles()
    assert not re.search(r"^\s+(run|script|notebook):", text, flags=re.MULTILINE)
    # Of files below results/<name>/, and of names that the wildcard constraints list.
    safe = r"(input|output|log)(\.\w+)?|wildcards\.(experiment|table|part)"
    safe += r"|params\.(experiment|tables|figures|folder)"
    for command in commands:
        for value in re.findall(r"\{([^{}]+)\}", command):
            assert value.endswith(":q") or re.fullmatch(safe, value), (value, command)
        assert command.count("$") == command.count('"$SQRTDK_COMMAND"')
    # These letters mean nothing to a shell, wherever they stand.
    assert all(re.fullmatch(r"[\w.-]", letter) for letter in map(chr, range(128))
               if yaml_reader.NAME.fullmatch(f"a{letter}"))  # fmt: skip
    assert not any(
        yaml_reader.NAME.fullmatch(f"a{letter}") for letter in map(chr, range(128, 0x3000))
    )
    for name in ("..", ".", "a/b", "/a", "-a", "", "a\n", "~a"):
        assert not yaml_reader.NAME.fullmatch(name)


SHELL = "a'b\"; touch X $(touch X) `touch X` | touch X & touch X\n touch X #"


def test_a_run_with_signs_of_the_shell_in_all_free_text_runs_none_of_it(tmp_path: Path) -> None:
    folder = tmp_path / SHELL
    folder.mkdir()
    file = folder / f"{SHELL}.yaml"
    file.write_text("experiments: worked_example\nname: mine\n", encoding="utf-8")
    target = "results/mine/provenance.json"
    rule = "hydra=scale_rules.mine.rule=constant 'scale_rules.mine.value=2'"
    done = snakemake(folder, target, "--configfile", str(file), "--config", rule)
    assert done.returncode == 0, done.stderr
    command = json.loads((folder / target).read_text(encoding="utf-8"))["command"]
    assert "touch X" in command
    assert not [path for path in tmp_path.rglob("*") if path.name in ("X", "touch")]
    assert {path.name for path in tmp_path.iterdir()} == {folder.name}


@pytest.mark.parametrize("key", ["name", "experiments", "grid", "dtype", "scaling", "inputs"])
def test_no_word_of_the_configuration_may_have_signs(composed: dict[str, Any], key: str) -> None:
    for value in (
        SHELL,
        "a;b",
        "$(a)",
        "`a`",
        "a b",
        "a'",
        'a"',
        "a\nb",
        "../a",
        "/a",
        "a/b",
        "<b>",
    ):
        with pytest.raises(errors.ConfigError, match=f"^{key}: "):
            # The grid is chosen before anything is composed.
            compose.compose([], {key: value}) if key == "grid" else resolve.resolve(
                composed | {key: value}
            )


@pytest.mark.parametrize("mapping", entries.FORMULAS)
def test_no_name_of_an_entry_may_have_signs(composed: dict[str, Any], mapping: str) -> None:
    word, formulas = entries.FORMULAS[mapping]
    for name in (SHELL, "a;b", "$(a)", "../a", "<b>", "a-b", "a.b", ""):
        with pytest.raises(errors.ConfigError, match=f"^{mapping}: "):
            resolve.resolve(composed | {mapping: {name: {word: next(iter(formulas))}}})


@pytest.mark.parametrize("name", FILES)
def test_a_wrong_file_is_refused_and_runs_nothing(
    composed: dict[str, Any], tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / name
    path.write_bytes(FILES[name])
    with pytest.raises(errors.ConfigError) as refused:
        resolve.resolve(composed | yaml_reader.read_config(path))
    assert len(str(refused.value)) < 1000
    assert len(str(refused.value).splitlines()) == 1
    assert [one.name for one in tmp_path.iterdir()] == [name]


def test_python_in_a_config_file_is_not_run_by_snakemake_either(tmp_path: Path) -> None:
    (tmp_path / "my.yaml").write_bytes(FILES["yte.yaml"])
    done = snakemake(tmp_path, "--configfile", "my.yaml")
    assert done.returncode == 1
    assert "unknown key '__use_yte__'" in done.stderr
    assert not (tmp_path / "X").exists()


# Without spaces, because some of it becomes an id.
EVIL = "\"'><script>alert(1)</script><img/src=x/onerror=alert(1)>&lt;b&gt;javascript:alert(1)"


def spoilt(path: Path) -> None:
    """Put markup into every cell of a table."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, rows[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        {name: f"{cell}{EVIL}{place}" for name, cell in row.items()}
        for place, row in enumerate(rows)
    )
    path.write_text(buffer.getvalue(), encoding="utf-8")


def test_what_a_report_is_made_of_is_shown_as_text(tmp_path: Path) -> None:
    folder = build(tmp_path, table())
    spoilt(folder / "claims.csv")
    settings = yaml_reader.read_config(folder / "config.yaml")
    settings["name"] = settings["scaling"]["note"] = EVIL
    settings["scale_rules"][EVIL] = {"rule": EVIL, EVIL: EVIL}
    (folder / "config.yaml").write_text(json.dumps(settings), encoding="utf-8")
    record = {"command": EVIL, "code": {"commit": EVIL, "revision": EVIL}, EVIL: {EVIL: [EVIL]}}
    record |= {"time_utc": EVIL, "sqrtdk": EVIL}
    (folder / "provenance.json").write_text(json.dumps(record), encoding="utf-8")
    page = render(folder)
    found = check(page)
    assert "<script" not in page.lower()
    assert not [attributes for attributes in found.all("img") if "src" not in attributes]
    assert html.unescape(page).count("<script>alert(1)</script>") > 20
    assert not [a for _, a in found.elements if {"onerror", "onload", "onclick"} & a.keys()]
    links = [a["href"] for a in found.all("a") if not a["href"].startswith("#")]
    assert not [link for link in links if re.match(r"(?!https://|[\w./-]+$)", link)]


PICTURE = """<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"
 onload="alert(1)" viewBox="0 0 1 1"><style>@import "https://example.org"</style>
<a xlink:href="javascript:alert(1)"><text>a</text></a><animate onbegin="alert(1)"/>
<set attributeName="href" to="javascript:alert(1)"/><image href="https://example.org/x.png"/>
<g ONCLICK="alert(1)" style="fill: url('https://example.org/x#y')" class='"&gt;&lt;script&gt;'>
<text>&lt;script&gt;alert(1)&lt;/script&gt;</text><use href="data:text/html,x"/></g></svg>"""


def test_a_picture_brings_nothing_but_what_it_draws() -> None:
    found = svg.embed(PICTURE, title=EVIL, description=EVIL)
    assert isinstance(found, Markup)
    page = Page(f"<div>{found}</div>")
    assert [tag for tag, _ in page.elements] == ["div", "img"]
    drawn = Page(shown_svg(f"<div>{found}</div>"))
    assert {tag for tag, _ in drawn.elements} <= {tag.lower() for tag in svg.ELEMENTS}
    for _, attributes in drawn.elements:
        assert not [name for name in attributes if name.lower().startswith("on")]
        assert not re.search(r"javascript|example\.org|data:text", " ".join(attributes.values()))


def test_the_page_allows_itself_nothing(tmp_path: Path) -> None:
    page = Page(render(build(tmp_path, table())))
    (policy,) = [m["content"] for m in page.all("meta") if "http-equiv" in m]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules.pop("default-src") == "'none'"
    # Its own style, and the pictures that are in it.
    assert rules == {
        "style-src": "'unsafe-inline'", "img-src": "data:", "base-uri": "'none'",
        "form-action": "'none'",
    }  # fmt: skip


def test_every_locked_dependency_has_a_digest() -> None:
    lock = tomllib.loads((ROOT / "uv.lock").read_text(encoding="utf-8"))
    files = [
        file
        for package in lock["package"]
        for file in [*package.get("wheels", []), *filter(None, [package.get("sdist")])]
    ]
    assert len(files) > 1000
    assert [file for file in files if not re.fullmatch(r"sha256:[0-9a-f]{64}", file["hash"])] == []
    own = [package["name"] for package in lock["package"] if "registry" not in package["source"]]
    assert own == ["sqrtdk"]
