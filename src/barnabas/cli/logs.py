"""What the clients log, on stderr, without saying the same thing over and over."""

from __future__ import annotations

import logging
from typing import NamedTuple

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


class _Shown(NamedTuple):
    """What `set_up` has added, and what was there before."""

    handler: logging.Handler
    level: int
    propagate: bool


_shown: list[_Shown] = []


def set_up(*, verbose: bool) -> None:
    """Send the clients' log to stderr: errors, or everything; warnings too once `show_warnings` is called."""
    logger = logging.getLogger("barnabas")
    if logger.handlers:
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("barnabas: %(message)s"))
    if not verbose:
        handler.addFilter(NoRepeats())
    _shown.append(_Shown(handler, logger.level, logger.propagate))
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG if verbose else logging.ERROR)
    logger.propagate = False


def tear_down() -> None:
    """Leave the logger as `set_up` found it: a command may run inside another program."""
    logger = logging.getLogger("barnabas")
    while _shown:
        shown = _shown.pop()
        logger.removeHandler(shown.handler)
        logger.setLevel(shown.level)
        logger.propagate = shown.propagate


def show_warnings(*, verbose: bool) -> None:
    """Show warnings from now on: what a client found out before the broker answered has been said by then."""
    if not verbose:
        logging.getLogger("barnabas").setLevel(logging.WARNING)
