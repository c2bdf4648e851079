"""The code of docs/guide/queues.md runs, from top to bottom."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "queues.md"


def test_the_code_of_the_page_runs_from_top_to_bottom(bootstrap_servers: str) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 4
    names: dict[str, Any] = {"servers": bootstrap_servers}
    for block in blocks:
        compiled = compile(block, str(PAGE), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        if compiled.co_flags & inspect.CO_COROUTINE:
            asyncio.run(eval(compiled, names))
        else:
            exec(compiled, names)
