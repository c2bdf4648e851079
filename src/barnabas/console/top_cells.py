"""Values as the cells of a terminal's tables: a name from the cluster cannot drive the terminal."""

from __future__ import annotations

import re
from typing import Any

from rich.text import Text

#: Columns that tell where something goes: an arrow stands before the number.
TRENDS = ("lagPerSecond",)


def cell(value: Any, column: str = "") -> Text:
    """Return a value of a column as people read it."""
    if column in TRENDS and value is not None:
        arrow, style = ("↗", "red") if value > 0 else ("↘", "green") if value < 0 else ("→", "")
        return Text(f"{arrow} {value:+,}" if value else arrow, justify="right", style=style)
    if isinstance(value, bool):
        return Text("yes" if value else "")
    if isinstance(value, int | float):
        return Text(f"{value:,}", justify="right")
    return Text("-" if value is None else shown(str(value)))


def head(column: str) -> str:
    """Return the words of a column's name in JSON."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", column).lower()


def shown(text: str) -> str:
    """Return a text in which what is not printable is escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
