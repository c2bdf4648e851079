"""What the README calls missing is missing, and what is there it does not call missing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from barnabas.broker.handlers.registry import SERVED
from barnabas.protocol.api import ApiKey

README = Path(__file__).parents[2] / "README.md"
#: What the README may call missing, and an API without which it is.
SIGNS = {"share groups": ApiKey.SHARE_FETCH, "streams groups": ApiKey.STREAMS_GROUP_HEARTBEAT}


@pytest.mark.parametrize("words", sorted(SIGNS))
def test_the_readme_calls_missing_what_is_missing(words: str) -> None:
    said = re.search(r"\*\*Not yet\*\*:([^.]*)\.", README.read_text(encoding="utf-8"))

    assert (said is not None and words in said.group(1)) == (SIGNS[words] not in SERVED)
