"""`Commands`: the command line that does what a view does."""

from __future__ import annotations

import shlex
from collections.abc import Mapping


class Commands:
    """Writes commands of `barnabas` for one cluster, quoted for a shell."""

    def __init__(self, connection: tuple[str, ...]) -> None:
        self._connection = connection

    def line(self, *words: str) -> str:
        """Return a command, such as `barnabas topic list -b localhost:9092`."""
        return shlex.join(["barnabas", *words, *self._connection])


def set_options(settings: Mapping[str, str]) -> list[str]:
    """Return `--set` for each of the settings."""
    return [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
