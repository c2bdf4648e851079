"""What heartbeats say of the brokers: who is alive, who wants to leave (BrokerHeartbeatManager, KIP-631).

None of it is in the log: it exists while this controller is active, and the next one begins with the registrations.
"""

from __future__ import annotations

from enum import Enum
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from barnabas.errors import IllegalStateError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from barnabas.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest


class BrokerControlState(Enum):
    """Where a broker stands for the controller."""

    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    SHUTDOWN_NOW = "shutdown now"


class BrokerIdAndEpoch(NamedTuple):
    """One life of a broker."""

    id: int
    epoch: int


_NOT_SHUTTING_DOWN = -1


class _Contact(NamedTuple):
    """When a life of a broker was heard of last, and on which connection; 0: on none yet."""

    at: float
    connection: int


class _Heartbeat:
    __slots__ = ("controlled_shutdown_offset", "is_fenced", "metadata_offset")

    def __init__(self, is_fenced: bool) -> None:
        self.is_fenced = is_fenced
        self.metadata_offset = -1
        self.controlled_shutdown_offset = _NOT_SHUTTING_DOWN

    @property
    def is_shutting_down(self) -> bool:
        return self.controlled_shutdown_offset >= 0

    @property
    def state(self) -> BrokerControlState:
        if self.is_shutting_down:
            return BrokerControlState.CONTROLLED_SHUTDOWN
        return BrokerControlState.FENCED if self.is_fenced else BrokerControlState.UNFENCED


class BrokerHeartbeatManager:
    """Sessions in seconds of the monotonic clock; a broker without one is given up after `session_timeout`."""

    def __init__(self, session_timeout: float) -> None:
        self._session_timeout = session_timeout
        self._contacts: dict[BrokerIdAndEpoch, _Contact] = {}
        self._brokers: dict[int, _Heartbeat] = {}

    # -- sessions ----------------------------------------------------------------------------------------------------

    def track(self, whose: BrokerIdAndEpoch, now: float, connection: int = 0) -> None:
        """Note that a broker was heard of."""
        self._contacts[whose] = _Contact(now, max(connection, self.last_connection(whose)))

    def has_valid_session(self, whose: BrokerIdAndEpoch, now: float) -> bool:
        """Whether this life of a broker was heard of within the session's time."""
        last = self._contacts.get(whose)
        return last is not None and now - last.at <= self._session_timeout

    def last_connection(self, whose: BrokerIdAndEpoch) -> int:
        """Return the connection on which this life of a broker was heard of last; 0 for none."""
        last = self._contacts.get(whose)
        return 0 if last is None else last.connection

    def has_session(self, whose: BrokerIdAndEpoch) -> bool:
        """Whether this life of a broker is waited for, however long ago it was heard of."""
        return whose in self._contacts

    def last_heard(self) -> Iterator[tuple[int, float]]:
        """Return when each broker was heard of last."""
        return ((whose.id, last.at) for whose, last in self._contacts.items())

    def end_session(self, whose: BrokerIdAndEpoch) -> None:
        """Forget a life of a broker that was let go."""
        self._contacts.pop(whose, None)

    def expired(self, now: float) -> BrokerIdAndEpoch | None:
        """Return one life of a broker that was not heard of for too long, and forget it."""
        for whose, last in self._contacts.items():
            if now - last.at > self._session_timeout:
                del self._contacts[whose]
                return whose
        return None

    # -- brokers -----------------------------------------------------------------------------------------------------

    def register(self, broker_id: int, is_fenced: bool) -> None:
        """Take in what the newest record says of a broker."""
        found = self._brokers.get(broker_id)
        if found is None:
            found = self._brokers[broker_id] = _Heartbeat(is_fenced)
        self.touch(broker_id, is_fenced, found.metadata_offset if found.is_fenced != is_fenced else -1)

    def remove(self, broker_id: int) -> None:
        """Forget a broker."""
        self._brokers.pop(broker_id, None)

    def fence(self, broker_id: int) -> None:
        """Note that a broker is given up."""
        if broker_id in self._brokers:
            self._brokers[broker_id].is_fenced = True

    def touch(self, broker_id: int, is_fenced: bool, metadata_offset: int) -> None:
        """Note how far a broker has read the metadata log; one that is fenced leaves its controlled shutdown."""
        found = self._broker(broker_id)
        found.is_fenced, found.metadata_offset = is_fenced, metadata_offset
        if is_fenced:
            found.controlled_shutdown_offset = _NOT_SHUTTING_DOWN

    def begin_controlled_shutdown(self, broker_id: int, offset: int) -> None:
        """Note at which offset of the log a broker's partitions were first given to others."""
        found = self._broker(broker_id)
        if not found.is_shutting_down:
            found.controlled_shutdown_offset = offset

    def lowest_active_offset(self) -> float:
        """How far the slowest broker that is alive, and stays, has read the metadata log; infinity without any."""
        alive = (found for found in self._brokers.values() if not found.is_fenced and not found.is_shutting_down)
        return min((found.metadata_offset for found in alive), default=inf)

    def usable(self) -> Iterator[tuple[int, bool]]:
        """Give the brokers that stay, and whether each is fenced."""
        return ((id, found.is_fenced) for id, found in self._brokers.items() if not found.is_shutting_down)

    def states(
        self,
        broker_id: int,
        request: BrokerHeartbeatRequest,
        registration_offset: int,
        has_leaderships: Callable[[], bool],
    ) -> tuple[BrokerControlState, BrokerControlState]:
        """Return where a broker stands, and where its heartbeat brings it."""
        found = self._broker(broker_id)
        current = found.state
        if current is BrokerControlState.FENCED:
            return current, _after_fenced(request, registration_offset)
        if current is BrokerControlState.UNFENCED:
            return current, _after_unfenced(request, has_leaderships)
        # All who stay must have heard that this broker leads nothing any more.
        is_done = not has_leaderships() and found.controlled_shutdown_offset <= self.lowest_active_offset()
        return current, BrokerControlState.SHUTDOWN_NOW if is_done else current

    def _broker(self, broker_id: int) -> _Heartbeat:
        found = self._brokers.get(broker_id)
        if found is None:
            raise IllegalStateError(f"Broker {broker_id} is not registered.")
        return found


def _after_fenced(request: BrokerHeartbeatRequest, registration_offset: int) -> BrokerControlState:
    if request.want_shut_down:
        return BrokerControlState.SHUTDOWN_NOW
    is_caught_up = request.current_metadata_offset >= registration_offset
    return BrokerControlState.UNFENCED if not request.want_fence and is_caught_up else BrokerControlState.FENCED


def _after_unfenced(request: BrokerHeartbeatRequest, has_leaderships: Callable[[], bool]) -> BrokerControlState:
    if request.want_fence:
        return BrokerControlState.SHUTDOWN_NOW if request.want_shut_down else BrokerControlState.FENCED
    if not request.want_shut_down:
        return BrokerControlState.UNFENCED
    return BrokerControlState.CONTROLLED_SHUTDOWN if has_leaderships() else BrokerControlState.SHUTDOWN_NOW
