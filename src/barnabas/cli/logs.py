"""What the clients log, on stderr, without saying the same thing over and over."""

from __future__ import annotations

import logging

QUIET_SECONDS = 30.0


class NoRepeats(logging.Filter):
    """Lets a message through once in half a minute: a broker that is gone is news only once."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the message is new."""
        text = record.getMessage()
        last = self._said.get(text)
        if last is not None and record.created - last < QUIET_SECONDS:
            return False
        self._said[text] = record.created
        return True


def set_up(*, verbose: bool) -> None:
    """Send the clients' log to stderr: errors, or everything; warnings too once `show_warnings` is called."""
    logger = logging.getLogger("barnabas")
    if logger.handlers:
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("barnabas: %(message)s"))
    if not verbose:
        handler.addFilter(NoRepeats())
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG if verbose else logging.ERROR)
    logger.propagate = False


def show_warnings(*, verbose: bool) -> None:
    """Show warnings from now on: what a client found out before the broker answered has been said by then."""
    if not verbose:
        logging.getLogger("barnabas").setLevel(logging.WARNING)
