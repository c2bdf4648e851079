"""What a broker writes to znodes and announces to all brokers, itself included, and who waits for it."""

from __future__ import annotations

from functools import partial
from itertools import count
from typing import TYPE_CHECKING, TypeVar

from barnabas import errors
from barnabas.broker.faults import run_all
from barnabas.broker.zookeeper.operations import ConnectionLostError

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.metadata.cluster_metadata import Done
    from barnabas.broker.zookeeper.operations import Program
    from barnabas.broker.zookeeper.program_queue import ProgramQueue

T = TypeVar("T")


class ZnodeWrites:
    """Carries writes out in the order in which they are asked for; `answered` is called when one is done.

    One that lost its connection may have been carried out without its announcement, and other brokers would not hear of
    it. So it is announced when the connection is back: who hears that reads what stands there.
    """

    def __init__(self, programs: ProgramQueue, answered: Callable[[], None]) -> None:
        self._programs = programs
        self._answered = answered
        #: Who waits, by the number of the write.
        self._waiting: dict[int, Done] = {}
        self._numbers = count()
        self._unannounced: list[Callable[[], Program[None]]] = []

    def write(
        self,
        program: Callable[[], Program[T]],
        announce: Callable[[], Program[None]],
        take: Callable[[T], None],
        done: Done,
    ) -> None:
        """Carry a write out; `take` gets what it returns, `done` None or why it failed."""
        number = next(self._numbers)

        def finished(result: T | errors.KafkaError) -> None:
            if isinstance(result, ConnectionLostError | errors.UnknownServerError):
                self._unannounced.append(announce)
            if isinstance(result, errors.KafkaError):
                self._tell(number, result)
            else:
                take(result)
                self._tell(number, None)

        self._waiting[number] = done
        self._programs.run(program, finished)

    def connected(self) -> None:
        """Announce what may have been written before the connection was lost."""
        unannounced, self._unannounced = self._unannounced, []
        for announce in unannounced:
            self._programs.run(announce, partial(self._announced, announce))

    def _announced(self, announce: Callable[[], Program[None]], result: errors.KafkaError | None) -> None:
        if isinstance(result, ConnectionLostError):
            self._unannounced.append(announce)

    def give_up(self, problem: errors.KafkaError) -> None:
        """Tell all who wait that nothing is known of their writes."""
        run_all(partial(self._tell, number, problem) for number in list(self._waiting))

    def _tell(self, number: int, problem: errors.KafkaError | None) -> None:
        """Tell who waits for a write what has become of it, once."""
        done = self._waiting.get(number)
        if done is None:
            return
        if isinstance(problem, ConnectionLostError):
            problem = errors.KafkaTimeoutError(f"{problem}; it may have been written, or not")
        run_all((partial(self._waiting.pop, number), partial(done, problem), self._answered))
