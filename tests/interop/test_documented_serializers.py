"""The code of docs/guide/serializers.md runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from barnabas import Broker
from tests.support.schema_registry import SchemaRegistry

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "serializers.md"


def test_the_code_of_the_page_runs_from_top_to_bottom() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) >= 4
    with Broker() as broker, SchemaRegistry() as registry:
        names: dict[str, Any] = {"servers": broker.bootstrap_servers, "registry_url": registry.url}
        for block in blocks:
            exec(compile(block, str(PAGE), "exec"), names)
