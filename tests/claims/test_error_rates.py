"""Pages of error rates: each claim is on one of them."""

import re
from pathlib import Path

from sqrtdk.experiments import statements

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_every_claim_is_on_a_page_of_error_rates() -> None:
    pages = "\n".join(
        path.read_text(encoding="utf-8") for path in sorted(DOCS.glob("verdicts*.md"))
    )
    # In a sentence, or in the first column of a table.
    named = set(re.findall(r"`(\w+)`", pages)) | set(re.findall(r"^\| (\w+) \|", pages, re.M))
    claims = {claim.claim for claim in statements.claims()}
    assert len(claims) >= 50
    assert sorted(claims - named) == []
