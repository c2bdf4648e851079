"""What the controller has to do, one after the other (ControllerEventManager)."""

from __future__ import annotations

from collections import deque
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from barnabas import errors
from barnabas.broker.faults import fault_text
from barnabas.broker.zookeeper.controller.controller_stats import ControllerState
from barnabas.broker.zookeeper.controller.lasting_session import LastingSession
from barnabas.broker.zookeeper.operations import ConnectionLostError, run

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.zookeeper.controller.controller_stats import ControllerStats
    from barnabas.broker.zookeeper.operations import Program, ZooKeeperSession


def _nothing(problem: errors.KafkaError) -> None:
    return


class ControllerEvent(NamedTuple):
    """A program to carry out; `dropped` is told why it does not come to its end.

    NOT_CONTROLLER where the controller is one no more; otherwise what the event failed with, UNKNOWN_SERVER_ERROR for a
    fault, as KafkaController answers.
    """

    name: str
    program: Callable[[], Program[None]]
    dropped: Callable[[errors.KafkaError], None] = _nothing


class _Waiting(NamedTuple):
    event: ControllerEvent
    since: float


class ControllerEventManager:
    """Carries events out, each to its end before the next begins; all state of a controller changes here only.

    `moved` is called when an event finds that another broker is controller. What else goes wrong in an event is
    reported, and the next one is begun.
    """

    def __init__(
        self,
        session: ZooKeeperSession,
        report: Callable[[str], None],
        moved: Callable[[], None],
        stats: ControllerStats,
    ) -> None:
        self._stats = stats
        self._begun_at = 0.0
        self._session = LastingSession(session)
        self._report = report
        self._moved = moved
        self._queue: deque[_Waiting] = deque()
        self._current: ControllerEvent | None = None
        self._is_closed = False
        #: Held while events are carried out, one after the other: what they set off does not go on by itself.
        self._going_on = Lock()
        #: Whether an event met a fault of this program, so that what is known may not be what ZooKeeper has.
        self.has_failed = False

    def put(self, event: ControllerEvent) -> None:
        """Line an event up; the same one that waits already is not done twice if it has no one to answer."""
        if self._is_closed:
            event.dropped(errors.NotControllerError())
            return
        is_asked_for = event.dropped is not _nothing
        if is_asked_for or not any(found.event.name == event.name for found in self._queue):
            self._queue.append(_Waiting(event, self._stats.now()))
            self._stats.queue_size = len(self._queue)
            self._go_on()

    def fail(self) -> None:
        """Note a fault of this program outside of the events, after which what is known may not be what is."""
        self.has_failed = True

    def pause(self) -> None:
        """Wait where events ask ZooKeeper: no server is reached."""
        self._session.pause()

    def resume(self) -> None:
        """Go on in the same session."""
        self._session.resume()

    def close(self) -> None:
        """Do nothing any more: programs end where they are."""
        self._is_closed = True
        self._session.close()
        dropped = ([] if self._current is None else [self._current]) + [waiting.event for waiting in self._queue]
        self._current = None
        self._queue.clear()
        self._stats.queue_size, self._stats.state = 0, ControllerState.IDLE
        for event in dropped:
            event.dropped(errors.NotControllerError())

    def _go_on(self) -> None:
        if self._going_on.locked():
            return
        with self._going_on:
            try:
                while self._current is None and self._queue and not self._is_closed:
                    event, since = self._queue.popleft()
                    self._current, self._begun_at = event, self._stats.now()
                    self._stats.queue_size = len(self._queue)
                    self._stats.begun(event.name, since)
                    run(self._session, self._guarded(event), lambda result: self._ended())
            except Exception as problem:  # noqa: BLE001 - an event that does not end would hold all others up
                self._report(fault_text("going on as controller", problem))
                self._moved()

    def _guarded(self, event: ControllerEvent) -> Program[None]:
        """Carry out an event, but nothing of it once the controller is one no more."""
        program = event.program()
        try:
            operations = next(program)
            while True:
                results = yield operations
                if self._is_closed:
                    program.close()
                    return
                operations = program.send(results)
        except StopIteration:
            return
        except errors.ControllerMovedError as problem:
            self._report(str(problem))
            self._moved()
        except ConnectionLostError:
            # What became of a write is not known: the next reign reads all there is.
            self._moved()
        except Exception as problem:  # noqa: BLE001 - a fault in one event must not end the controller
            self.has_failed = self.has_failed or not isinstance(problem, errors.KafkaError)
            self._report(f"the controller failed at {event.name}, and goes on: {type(problem).__name__}: {problem}")
            event.dropped(
                problem if isinstance(problem, errors.KafkaError) else errors.UnknownServerError(str(problem))
            )

    def _ended(self) -> None:
        if not self._is_closed:
            self._current = None
            self._stats.ended(self._begun_at)
            self._go_on()
