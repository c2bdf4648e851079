"""Kafka's CachedFile: what a file's text comes to, made anew when the file has changed."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Generic, TypeVar

from barnabas.errors import ConfigError, KafkaError

T = TypeVar("T")


class CachedFile(Generic[T]):
    """The file that `setting` names; `shown` is its path for messages. One thread at a time may use it.

    `transform` makes of the text what is wanted, or raises ValueError with a reason that shows nothing of the text.

    Raises `ConfigError` when the file cannot be read, or not transformed.

    """

    def __init__(self, setting: str, path: str, shown: str, transform: Callable[[str], T]) -> None:
        self._path = path
        self._shown = shown
        self._transform = transform
        self.origin = f"{shown} ({setting})"
        try:
            self._stamp = self._look()
            self._content = self._read()
        except (OSError, ValueError) as problem:
            raise ConfigError(f"{setting}={shown} cannot be used: {_why(problem)}") from None

    def get(self) -> T:
        """Return what the file holds now; asks the system about the file, and reads it only when it has changed.

        Raises `KafkaError` when it is gone, or was replaced by something that cannot be used; the next call
        looks again.

        """
        try:
            stamp = self._look()
            if stamp != self._stamp:
                self._content = self._read()
                # Only now, so that a file which is only half written, or gone for a moment, is read again.
                self._stamp = stamp
        except (OSError, ValueError) as problem:
            raise KafkaError(f"{self.origin} has changed and cannot be used: {_why(problem)}") from None
        return self._content

    def _look(self) -> tuple[int, int, int]:
        found = os.stat(self._path)
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _read(self) -> T:
        try:
            with open(self._path, encoding="utf-8") as file:
                text = file.read()
        except UnicodeDecodeError:
            raise ValueError("it is not text in UTF-8") from None
        return self._transform(text)


def _why(problem: OSError | ValueError) -> str:
    return problem.strerror or type(problem).__name__ if isinstance(problem, OSError) else str(problem)
