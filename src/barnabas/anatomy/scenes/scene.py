"""What all scenes have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from barnabas.anatomy.events import Event
    from barnabas.anatomy.picture import Picture

#: So many things that are over a scene still shows.
LAST = 8


class Scene(Protocol):
    """A reducer of events, and its picture."""

    def __init__(self, subject: str) -> None: ...

    @staticmethod
    def subject_of(event: Event) -> str | None:
        """Return the subject that an event introduces; None where it introduces none."""

    def apply(self, event: Event) -> bool:
        """Take an event in; False if it does not belong to this scene."""

    def picture(self) -> Picture:
        """Show what there is now."""
