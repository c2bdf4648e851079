"""A transaction as an asynchronous context."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self


class Transaction:
    """One transaction of a producer, as an asynchronous context. Made by `Producer.transaction()`."""

    def __init__(self, begin: Callable[[], None], leave: Callable[[BaseException | None], Awaitable[None]]) -> None:
        self._begin = begin
        self._leave = leave

    async def __aenter__(self) -> Self:
        self._begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._leave(error)
