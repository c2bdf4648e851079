"""Drives the calls of a consumer to their end, also of one that is cancelled: nothing is lost, nothing handed out."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, TypeVar

from barnabas.errors import KafkaError

if TYPE_CHECKING:
    from barnabas.aio.loop_waiter import LoopWaiter
    from barnabas.aio.single_loop_use import LoopUse
    from barnabas.client.consumer.consumer_polling import ConsumerPolling
    from barnabas.client.consumer.share.share_polling import SharePolling
    from barnabas.client.steps import Steps

log = logging.getLogger("barnabas.aio")

T = TypeVar("T")


class ConsumerCalls:
    """Runs `Steps` in coroutines; what a cancelled call has begun goes on without its caller, and is waited for."""

    def __init__(self, polling: ConsumerPolling | SharePolling, loop_use: LoopUse, waiter: LoopWaiter) -> None:
        self._polling = polling
        self._loop_use = loop_use
        self._waiter = waiter
        # What is left of a call that was cancelled while code of the application ran.
        self._unfinished: asyncio.Task[None] | None = None

    async def finish(self) -> None:
        """Wait for the rest of a call that was cancelled."""
        if self._unfinished is not None:
            await asyncio.shield(self._unfinished)

    async def run_poll(self, steps: Steps[T]) -> T:
        """Run a call that hands out records; where it fails half way, the next one has them."""
        try:
            return await self.run_alone(steps)
        except (KafkaError, asyncio.CancelledError):
            raise
        except BaseException:
            # Of a deserializer, say: what was collected is handed out by the next poll.
            self._polling.take_back()
            raise

    async def run_alone(self, steps: Steps[T]) -> T:
        """Run a call of which one at a time may be in progress."""
        await self.finish()
        with self._loop_use.exclusive:
            return await self.run(steps)

    async def run(self, steps: Steps[T]) -> T:
        """Run a call to its end. It waits before anything is handed out, so who is cancelled has got nothing."""
        with self._loop_use:
            await self._waiter.be_fair()
            try:
                awaited = next(steps)
                while True:
                    if awaited is None:
                        await self._waiter.wait()
                        awaited = next(steps)
                    else:
                        awaited = _resume(steps, await self._run_application(steps, awaited))
            except StopIteration as end:
                result: T = end.value
                return result
            except BaseException:
                if self._unfinished is None:
                    steps.close()
                raise

    async def _run_application(self, steps: Steps[Any], awaited: Awaitable[Any]) -> asyncio.Future[Any]:
        """Await what a listener or callback returned; when the call is cancelled meanwhile, that goes on."""
        task = asyncio.ensure_future(awaited)
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            self._unfinished = asyncio.ensure_future(self._finish(steps, task))
            raise
        return task

    async def _finish(self, steps: Steps[Any], task: asyncio.Future[Any]) -> None:
        """Finish a call that was cancelled, without its caller: a poll ends before it takes records."""
        self._polling.is_abandoned = True
        try:
            await asyncio.wait([task])
            awaited = _resume(steps, task)
            while True:
                if awaited is None:
                    await self._waiter.wait()
                    awaited = next(steps)
                else:
                    task = asyncio.ensure_future(awaited)
                    await asyncio.wait([task])
                    awaited = _resume(steps, task)
        except StopIteration:
            return
        except Exception:
            log.exception("the rest of a call that was cancelled failed")
        finally:
            self._polling.is_abandoned = False
            self._unfinished = None


def _resume(steps: Steps[Any], task: asyncio.Future[Any]) -> Awaitable[Any] | None:
    """Go on after the application's code, with its error if it raised one."""
    if task.cancelled():
        return steps.throw(asyncio.CancelledError())
    error = task.exception()
    return next(steps) if error is None else steps.throw(error)
