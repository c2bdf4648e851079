"""What the clients log, on stderr, without saying the same thing over and over."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

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


@contextlib.contextmanager
def only_errors(verbose: bool) -> Iterator[None]:
    """Leave warnings out for a while, unless everything is wanted."""
    logger = logging.getLogger("barnabas")
    level = logger.level
    if not verbose:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def set_up(*, verbose: bool) -> None:
    """Send the clients' log to stderr: warnings and errors, or everything."""
    logger = logging.getLogger("barnabas")
    if logger.handlers:
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("barnabas: %(message)s"))
    if not verbose:
        handler.addFilter(NoRepeats())
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG if verbose else logging.WARNING)
    logger.propagate = False
