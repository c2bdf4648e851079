"""What a callback raised to end the program, on its way to the application."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.client.producer.record_accumulator import RecordAccumulator


class CallbackExit:
    """Keeps `sys.exit()` or Ctrl-C of a callback, which must not end the Sender, until the application's next call.

    The next `send`, `flush`, `close` or call about a transaction raises it, once.
    """

    def __init__(self, accumulator: RecordAccumulator) -> None:
        self._accumulator = accumulator
        self._raised: BaseException | None = None

    def note(self, raised: BaseException) -> None:
        """Keep it; only the first one counts."""
        if self._raised is None:
            self._raised = raised
            # The next record asks for its topic again, and so comes by.
            self._accumulator.metadata_version += 1

    def raise_noted(self) -> None:
        """Raise what was kept, if anything was."""
        raised, self._raised = self._raised, None
        if raised is not None:
            raise raised
