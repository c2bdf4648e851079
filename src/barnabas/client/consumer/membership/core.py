"""The core of a consumer that keeps it in its group."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.client.consumer.consumer_metrics import coordinator_metrics
from barnabas.client.consumer.membership.classic_membership import ClassicMembership
from barnabas.client.consumer.membership.commit_request_manager import CommitRequestManager
from barnabas.client.consumer.membership.coordinator_lookup import CoordinatorLookup
from barnabas.client.consumer.membership.messages import (
    Command,
    CommitOffsets,
    Event,
    FetchOffsets,
    MembershipFailed,
    Stop,
)
from barnabas.errors import KafkaError

if TYPE_CHECKING:
    from barnabas.client.consumer.consumer_network_client import ConsumerNetworkClient
    from barnabas.client.consumer.membership.group_membership import GroupMembership
    from barnabas.client.consumer.membership.group_requests import GroupIdentity
    from barnabas.client.consumer.membership.heartbeat import Heartbeat
    from barnabas.network.network_client import NetworkClient


class MembershipCore:
    """Coordinator connection, membership, heartbeats, commits: all of it owned by the caller of `run_once`.

    That is the heartbeat thread; in tests and simulations anything that can pass the time. The application's thread
    touches three things only: `send` and `events`, the two mailboxes (a deque's append and popleft are atomic), and
    `heartbeat.poll`. `wake_application` is called after each event, from the owner's thread.
    """

    def __init__(
        self,
        client: ConsumerNetworkClient,
        group: GroupIdentity,
        heartbeat: Heartbeat,
        backoff: Callable[[int], float],
        wake_application: Callable[[], object],
        membership: Callable[..., GroupMembership] = ClassicMembership,
    ) -> None:
        self._client = client
        self._commands: deque[Command] = deque()
        self.events: deque[Event] = deque()
        self._wake_application = wake_application
        self._stop: Stop | None = None
        # The command that is being taken.
        self._in_hand: Command | None = None
        # An error ended a turn, and not all is said that leaves the group since.
        self._is_recovering = False
        #: Why the core ended for good; set by the owner's thread, and never reset.
        self.failure: KafkaError | None = None
        self._ends_at = math.inf
        self.heartbeat = heartbeat
        #: What else is done in each turn; returns in how many seconds it is to be done again.
        self.aside: Callable[[float], float] | None = None
        self.is_done = False
        self._lookup = CoordinatorLookup(client, group.group_id, backoff)
        self._membership = membership(client, self._lookup, group, heartbeat, self._post)
        self._offsets = CommitRequestManager(client, self._lookup, self._membership, group, backoff, self._post)

    @property
    def network_client(self) -> NetworkClient:
        """What the core polls; the core's driver may want to know when that has something to do."""
        return self._client.client

    def send(self, command: Command) -> None:
        """Leave a command for the core; from the application's thread."""
        self._commands.append(command)
        self._client.client.wakeup()

    def run_once(self, now: float) -> float:
        """Take commands, do what is due, then wait for the network or the next thing to do; returns the time after."""
        while self._commands:
            self._in_hand = self._commands.popleft()
            self._process(self._in_hand, now)
            self._in_hand = None
        self._membership.tick(now)
        self._offsets.tick(now)
        if self._stop is not None:
            self.is_done = now >= self._ends_at or self._is_idle()
        if self.is_done:
            self._transmit_last(now)
            return now
        most = math.inf if self.aside is None else self.aside(now)
        now = self._client.poll(min(most, self._time_to_next_tick(now)), now)
        self._is_recovering = self._is_recovering and not self._membership.is_idle
        return now

    def metrics(self, now: float) -> dict[str, float]:
        """Return the numbers that the owner's thread counts; any other thread may ask."""
        return coordinator_metrics(self._client, self.heartbeat.sent_at, now)

    def fail(self, error: BaseException) -> None:
        """Leave the group and begin anew, because of an error that was not expected; the application's core raises it.

        What may be half done is dropped: connections, requests, commits. An error that comes before the group is left
        ends the core for good: its cause may never end.
        """
        if self._is_recovering:
            self.failure = _as_kafka_error(error, "is out of its group and takes no more calls: close it, make another")
            self.is_done = True
            self._wake_application()
            return
        self._is_recovering = True
        failure = _as_kafka_error(error, "leaves its group, and joins it again with the next poll()")
        if not (self.events and isinstance(self.events[-1], MembershipFailed)):
            self._post(MembershipFailed(failure))
        self._client.recover()
        self._drop_in_hand()
        self._offsets.abandon(failure)
        self._membership.take_leave()

    def close(self) -> None:
        """Close the connections."""
        self._client.client.close()

    def _process(self, command: Command, now: float) -> None:
        if isinstance(command, CommitOffsets | FetchOffsets):
            self._offsets.add(command)
            # Sent before a Join that follows it: from then on the old generation may not commit any more.
            self._offsets.tick(now)
        elif isinstance(command, Stop):
            self._stop = command
            self._ends_at = min(self._ends_at, command.deadline)
        else:
            self._membership.process(command, now)

    def _drop_in_hand(self) -> None:
        """Forget the command that the error came in, unless a call waits for its result."""
        command, self._in_hand = self._in_hand, None
        if isinstance(command, CommitOffsets | FetchOffsets):
            self._offsets.add(command)
        elif isinstance(command, Stop):
            self._process(command, self._client.now)

    def _is_idle(self) -> bool:
        telemetry = self.network_client.telemetry_sender
        is_telling = telemetry is not None and telemetry.holds_up_the_end
        return self._offsets.is_idle and self._membership.is_idle and not is_telling

    def _transmit_last(self, now: float) -> None:
        """Give what leaves the group to the network, without waiting for an answer."""
        if self.network_client.telemetry_sender is not None:
            self.network_client.telemetry_sender.retire()
        self._client.transmit_sends(now)

    def _time_to_next_tick(self, now: float) -> float:
        nearest = min(self._membership.time_to_next_tick(now), self._offsets.time_to_next_tick(now))
        return min(nearest, self._ends_at - now)

    def _post(self, event: Event) -> None:
        self.events.append(event)
        self._wake_application()


def _as_kafka_error(error: BaseException, consequence: str) -> KafkaError:
    if isinstance(error, KafkaError):
        return error
    wrapped = KafkaError(
        f"The consumer's heartbeat thread failed: {type(error).__name__}: {error}. The consumer {consequence}"
    )
    wrapped.__cause__ = error
    return wrapped
