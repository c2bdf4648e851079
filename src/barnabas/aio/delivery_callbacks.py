"""Delivery callbacks that are coroutines."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from barnabas.client.producer.append import RecordMetadata
from barnabas.client.producer.produce_request_result import log_callback_error
from barnabas.protocol.topic_partition import TopicPartition


class CallbackTasks:
    """Runs coroutine functions given as `on_delivery`, each call in a task; what they raise is logged."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._last: Any = None
        self._last_wrapped: Any = None

    def wrap(self, callback: Callable[..., Any]) -> Callable[..., Any]:
        """Return the callback itself if it is a plain function, else one that starts its task."""
        if callback is not self._last:
            is_coroutine = inspect.iscoroutinefunction(callback) or inspect.iscoroutinefunction(
                getattr(callback, "__call__", None)  # noqa: B004  whether it is async is asked, not whether it is there
            )
            self._last = callback
            self._last_wrapped = partial(self._start, callback) if is_coroutine else callback
        wrapped: Callable[..., Any] = self._last_wrapped
        return wrapped

    def _start(self, callback: Callable[..., Any], metadata: RecordMetadata, error: BaseException | None) -> None:
        task = asyncio.get_running_loop().create_task(_run(callback, metadata, error))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def drain(self) -> None:
        """Wait for all callbacks that run, but for the one that asks."""
        waiting = self._tasks - {asyncio.current_task()}
        if waiting:
            await asyncio.wait(waiting)


async def _run(callback: Callable[..., Any], metadata: RecordMetadata, error: BaseException | None) -> None:
    try:
        await callback(metadata, error)
    except Exception:  # noqa: BLE001  user code may raise anything, and this task is not awaited
        log_callback_error(TopicPartition(metadata.topic, metadata.partition), callback)
