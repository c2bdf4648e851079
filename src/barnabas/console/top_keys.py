"""The screen of `barnabas top` that says what each key does."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

from barnabas.console.top_cells import shown

KEYS = {
    "t g b x c": "topics, groups, brokers, transactions, clients",
    "Enter": "open the row under the cursor; Escape goes back",
    "s": "sort by the next column, the largest first",
    "/": "only names with a text; Escape shows all again",
    "space": "freeze what is shown, and go on",
    "o": "move the offsets of a group, after a preview",
    "?": "this",
    "q": "end",
}


class Keys(ModalScreen[None]):
    """The keys, and the command that tells what the table behind it does; any of its keys leads back."""

    CSS = "Keys { align: center middle; } #keys { width: 76; height: auto; padding: 1 2; border: round $primary; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape", "dismiss", "Back"), ("q", "dismiss", "Back"), ("question_mark", "dismiss", "Back"),
    ]  # fmt: skip

    def __init__(self, command: str) -> None:
        super().__init__()
        self._command = command

    def compose(self) -> ComposeResult:
        """Lay it out."""
        with Vertical(id="keys"):
            lines = [(f"{key:<12}{what}\n", "") for key, what in KEYS.items()]
            yield Static(Text.assemble(("What the keys do\n\n", "bold"), *lines, ("\nThe same as a command: ", "dim")))
            yield Static(Text(shown(self._command)), id="command")
