"""A transaction as a context."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Self

from barnabas.client.steps import Steps, run


class Transaction:
    """One transaction of a producer, as a context. Made by `Producer.transaction()`."""

    def __init__(self, begin: Callable[[], None], leave: Callable[[BaseException | None], Steps[None]]) -> None:
        self._begin = begin
        self._leave = leave

    def __enter__(self) -> Self:
        self._begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        run(self._leave(error))
