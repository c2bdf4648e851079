"""The thread that drives the membership core."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.errors import KafkaError

if TYPE_CHECKING:
    from barnabas.client.consumer.membership.core import MembershipCore


class HeartbeatThread(threading.Thread):
    """Runs a `MembershipCore` until it is done. A daemon: a program that forgets `close` still ends."""

    def __init__(self, core: MembershipCore, clock: Callable[[], float], group_id: str) -> None:
        super().__init__(name=f"kafka-coordinator-heartbeat-thread | {group_id}", daemon=True)
        self._core = core
        self._clock = clock

    def run(self) -> None:
        """Let the core work; an error that it did not expect ends it and comes out of the application's next call."""
        core = self._core
        try:
            now = self._clock()
            while not core.is_done:
                now = core.run_once(now)
        except Exception as error:  # noqa: BLE001 - the thread must not die without a word
            core.fail(as_kafka_error(error))
        finally:
            core.close()


def as_kafka_error(error: Exception) -> KafkaError:
    """What the application is told when the core failed."""
    if isinstance(error, KafkaError):
        return error
    wrapped = KafkaError(f"The consumer's heartbeat thread failed: {type(error).__name__}: {error}")
    wrapped.__cause__ = error
    return wrapped
