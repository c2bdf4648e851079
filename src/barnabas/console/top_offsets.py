"""Offsets of a group moved from `barnabas top`: a place, what that comes to in each partition, and then the move."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import DataTable, Input, Static

from barnabas.clock import wall_clock_ms
from barnabas.console.answers import Body
from barnabas.console.commands import Commands
from barnabas.console.group_offsets import Move, Moved, move_offsets
from barnabas.console.top_cells import cell, shown
from barnabas.errors import IllegalArgumentError, KafkaError

if TYPE_CHECKING:
    from rich.text import Text

    from barnabas.aio import AdminClient

COLUMNS = ("topic", "partition", "committed", "offset", "lag", "wanted")
PLACES = "earliest, latest, 120, 2013-06-01T12:00, -5m, or by +10 or -10; topics may follow"
_SHIFT = re.compile(r"[+-]\d{1,18}", re.ASCII)
_ASKS = "Enter shows where offsets go; m moves them there; Escape goes back"


def wanted(text: str) -> dict[str, Any]:
    """Return the fields of a request for what was typed: where to, and which topics. Raises `IllegalArgumentError`.

    A signed number moves each offset by so many records, `-5m` to where five minutes ago was (Kafka's --by-duration).
    """
    place, *topics = text.split()[:100] or [""]
    if not place:
        raise IllegalArgumentError(f"write {PLACES}")
    where: dict[str, Any] = {"shiftBy": int(place)} if _SHIFT.fullmatch(place) else {"to": place}
    return {**where, "topics": topics}


def plan_of(moves: Sequence[Move]) -> str:
    """Return the lines of a plan that does what a preview has shown."""
    return "\n".join(f"{move['topic']},{move['partition']},{move['offset']}" for move in moves)


class MoveOffsets(ModalScreen[int]):
    """Asks where to, shows the preview, and moves; dismissed with how many were moved."""

    CSS = (
        "MoveOffsets { align: center middle; } DataTable { height: 1fr; }"
        "#move { width: 90%; height: 80%; background: $surface; border: round $primary; }"
    )
    BINDINGS: ClassVar[list[BindingType]] = [("escape", "back", "Back"), ("m", "move", "Move")]

    def __init__(self, group: str, admin: AdminClient, commands: Commands, now_ms: Callable[[], int] = wall_clock_ms):
        super().__init__()
        self._group = group
        self._admin = admin
        self._commands = commands
        self._now_ms = now_ms
        self._preview: Moved | None = None

    def compose(self) -> ComposeResult:
        """Lay out the place, the preview, and the command that does the same."""
        with Vertical(id="move"):
            yield Static(shown(f"move the offsets of group {self._group}"), markup=False)
            yield Input(placeholder=PLACES, id="place")
            yield DataTable(id="preview", cursor_type="row")
            yield Static(_ASKS, id="says", markup=False)

    def on_mount(self) -> None:
        """Ask for the place first."""
        self._table().add_columns(*COLUMNS)
        self.query_one("#place", Input).focus()

    def _table(self) -> DataTable[Text]:
        found: DataTable[Text] = self.query_one("#preview", DataTable)
        return found

    def _say(self, text: str) -> None:
        self.query_one("#says", Static).update(shown(text))

    def on_input_changed(self, event: Input.Changed) -> None:
        """Forget the preview: it is of another place."""
        event.stop()
        if self._preview is not None:
            self._preview = None
            self._table().clear()
            self._say(_ASKS)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Show where the offsets would go."""
        event.stop()
        self.run_worker(self._look(event.value), exclusive=True)

    async def _look(self, text: str) -> None:
        try:
            fields = {"group": self._group, "dryRun": True, **wanted(text)}
            self._preview = await move_offsets(self._admin, Body(fields), self._now_ms(), self._commands)
        except KafkaError as problem:
            self._say(f"{type(problem).__name__}: {problem}")
            return
        table = self._table()
        table.clear()
        for move in self._preview["moves"]:
            row: dict[str, Any] = {**move}
            table.add_row(*(cell(row[column]) for column in COLUMNS))
        self._say(f"m moves {len(self._preview['moves'])} offsets; the same is: {self._preview['command']} --execute")
        table.focus()

    def action_move(self) -> None:
        """Move to where the preview says, and nowhere else."""
        if self._preview is not None and self.query_one("#place", Input) is not self.focused:
            self.run_worker(self._move(self._preview["moves"]), exclusive=True)

    async def _move(self, moves: Sequence[Move]) -> None:
        fields = {"group": self._group, "plan": plan_of(moves)}
        try:
            done = await move_offsets(self._admin, Body(fields), self._now_ms(), self._commands)
        except KafkaError as problem:
            self._say(f"{type(problem).__name__}: {problem}")
            return
        self.dismiss(len(done["moves"]))

    def action_back(self) -> None:
        """Go back without a move."""
        self.dismiss(0)
