"""The code of docs/guide/observability.md runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from barnabas import Broker

PAGE = Path(__file__).parents[3] / "docs" / "guide" / "observability.md"


def test_the_code_of_the_page_runs_from_top_to_bottom() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) >= 3
    with Broker() as broker:
        names: dict[str, Any] = {"servers": broker.bootstrap_servers}
        for block in blocks:
            exec(compile(block, str(PAGE), "exec"), names)
