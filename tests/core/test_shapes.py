"""The shapes in annotations are those of the arrays, and cost nothing in a run."""

import subprocess
import sys
from pathlib import Path


def test_arrays_have_the_shapes_that_annotations_name() -> None:
    calls = Path(__file__).with_name("shaped_calls.py")
    subprocess.run([sys.executable, str(calls)], check=True, capture_output=True, text=True)


def test_a_run_loads_no_checker_of_shapes() -> None:
    program = (
        "import sys, sqrtdk.core.kernel, sqrtdk.experiments.encoder_decoder.model; "
        "print(sorted({'jaxtyping', 'beartype'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
