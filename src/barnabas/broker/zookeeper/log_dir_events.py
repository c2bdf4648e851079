"""Has the controller ask which replicas are served (KafkaZkClient.propagateLogDirEvent).

Apache's brokers announce a directory that failed, and serve it when they are started again. Here a log may be opened
anew before that: a controller that takes its replica for out of service has to ask once more.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from barnabas.broker.zookeeper.controller import controller_znodes
from barnabas.broker.zookeeper.operations import Create, Created, expect, run

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.instant import Instant
    from barnabas.broker.zookeeper.operations import Program, ZooKeeperSession
    from barnabas.errors import KafkaError

_PATH = f"{controller_znodes.LOG_DIR_EVENTS}/{controller_znodes.LOG_DIR_EVENT_PREFIX}"
#: How soon an announcement that failed is tried again, in seconds.
_RETRY = 1.0


class LogDirEvents:
    """Announces what happened; a service of the dispatcher. `happened` counts directories that failed and logs mended.

    The controller asks for all replicas of the broker then, and the response names those that are gone.
    """

    def __init__(self, me: int, session: ZooKeeperSession, happened: Callable[[], int]) -> None:
        self._me = me
        self._session = session
        self._happened = happened
        self._announced = 0
        self._next = -inf

    def next_deadline(self) -> float:
        """When `tick` is due."""
        return self._next if self._happened() > self._announced else inf

    def tick(self, instant: Instant) -> None:
        """Announce."""
        happened = self._happened()
        if happened > self._announced and instant.now >= self._next:
            self._next = instant.now + _RETRY
            run(self._session, self._program(happened), self._done)

    def _program(self, happened: int) -> Program[int]:
        data = controller_znodes.encode_log_dir_event(self._me)
        (made,) = yield [Create(_PATH, data, sequential=True)]
        expect(made, Created)
        return happened

    def _done(self, result: int | KafkaError) -> None:
        if isinstance(result, int):
            self._announced, self._next = max(self._announced, result), -inf
