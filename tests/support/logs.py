"""The commands set the clients' log up for a process of their own; a test gives it back as it was."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def log_of_the_clients_as_it_was() -> Iterator[None]:
    """Give the logger `barnabas` back its handlers, level and propagation when the block ends."""
    logger = logging.getLogger("barnabas")
    handlers, level, propagate = list(logger.handlers), logger.level, logger.propagate
    try:
        yield
    finally:
        logger.handlers[:] = handlers
        logger.setLevel(level)
        logger.propagate = propagate
