"""Where in the user's program a step of a topology was made: errors name that line."""

from __future__ import annotations

import sys
from pathlib import Path

_ROOM = str(Path(__file__).parents[1])


def users_line() -> str:
    """Return `file:line` of the innermost caller outside of this room; empty when there is none."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_ROOM):
        frame = frame.f_back  # type: ignore[assignment]
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else ""


def note_origin(error: BaseException, name: str, made_at: str) -> None:
    """Add to an error which step it is about, and the line that made the step; once."""
    if made_at and not any(made_at in note for note in getattr(error, "__notes__", ())):
        error.add_note(f"{name} was made at {made_at}")
