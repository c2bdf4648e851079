"""A client for asyncio behind the interface of the client for threads, so that the same tests run on both."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Blocking:
    """Makes a client in an event loop in a thread of its own; every call is made there and waited for."""

    def __init__(self, kind: Callable[..., Any], *arguments: Any, **settings: Any) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        try:
            self._client = self._do(lambda: kind(*arguments, **settings))
        except BaseException:
            self._stop()
            raise

    def _do(self, call: Callable[[], Any]) -> Any:
        async def in_loop() -> Any:
            result = call()
            return await result if asyncio.iscoroutine(result) else result

        return asyncio.run_coroutine_threadsafe(in_loop(), self._loop).result(60)

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._client, name)
        if not callable(attribute):
            return attribute
        return lambda *arguments, **keywords: self._do(lambda: attribute(*arguments, **keywords))

    def wakeup(self) -> None:
        """From the caller's thread, as the only call that may come from anywhere."""
        self._client.wakeup()

    def __iter__(self) -> Iterator[Any]:
        records = self._client.__aiter__()
        try:
            while True:
                yield self._do(lambda: _next(records))
        finally:
            self._do(records.aclose)

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """The asynchronous context as a plain one."""
        context = self._do(self._client.transaction)
        self._do(context.__aenter__)
        try:
            yield context
        except BaseException as error:
            raised = error
            self._do(lambda: context.__aexit__(type(raised), raised, raised.__traceback__))
            raise
        self._do(lambda: context.__aexit__(None, None, None))

    def close(self, *arguments: Any, **keywords: Any) -> None:
        """Close the client, and end its thread."""
        if self._thread.is_alive():
            try:
                self._do(lambda: self._client.close(*arguments, **keywords))
            finally:
                self._stop()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


async def _next(records: Any) -> Any:
    return await anext(records)
