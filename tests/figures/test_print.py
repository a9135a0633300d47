"""Figures for a paper's column and for slides."""

import re
import struct
from pathlib import Path

import pytest

from sqrtdk.experiments import schemas
from sqrtdk.experiments.base import load
from sqrtdk.experiments.registry import EXPERIMENTS
from sqrtdk.figures import draw, panels, style


@pytest.fixture(scope="module")
def drawn(smoke: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two folders with the figure of the entropy, drawn twice."""
    experiment = EXPERIMENTS["scaling"]
    columns = {name: schemas.columns(experiment, name) for name in experiment.drawn_from}
    build = {"entropy": load("scaling", "figures").BUILD["entropy"]}
    folders = [tmp_path_factory.mktemp(name) for name in ("one", "two")]
    for folder in folders:
        draw.draw_for_print("scaling", build, columns, smoke / "results/smoke/scaling", folder)
    return folders


def test_a_figure_for_a_paper_has_the_width_of_a_column_and_a_serif_font(
    drawn: list[Path],
) -> None:
    content = (drawn[0] / "scaling-entropy.pdf").read_bytes()
    (box,) = re.findall(rb"/MediaBox \[ 0 0 ([\d.]+) ", content)
    # 3.3 inches of 72 points.
    assert float(box) == pytest.approx(237.6)
    fonts = set(re.findall(rb"/BaseFont /(?:[A-Z]{6}\+)?(\w+)", content))
    assert fonts
    assert all(font.startswith(b"STIX") for font in fonts)


def test_a_figure_for_a_slide_has_its_pixels(drawn: list[Path]) -> None:
    content = (drawn[0] / "scaling-entropy.png").read_bytes()
    assert struct.unpack(">II", content[16:24]) == (1920, 1080)


def test_the_same_tables_give_the_same_files(drawn: list[Path]) -> None:
    for ending in ("pdf", "png"):
        one, two = ((folder / f"scaling-entropy.{ending}").read_bytes() for folder in drawn)
        assert one == two


def test_the_medium_ends_with_its_context() -> None:
    with style.context(style.PAPER):
        assert panels.most_panels() == 2
    assert panels.most_panels() == 3
