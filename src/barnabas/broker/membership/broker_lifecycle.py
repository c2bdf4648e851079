"""A broker's life in its cluster: registration, heartbeats, controlled shutdown (BrokerLifecycleManager, KIP-631)."""

from __future__ import annotations

from enum import Enum
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from barnabas import errors
from barnabas.broker.metadata.replica_log_end import tell
from barnabas.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from barnabas.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from barnabas.protocol.messages.broker_registration_request import BrokerRegistrationRequest, Feature, Listener
from barnabas.protocol.messages.broker_registration_response import BrokerRegistrationResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from barnabas.broker.instant import Instant
    from barnabas.broker.log.log_manager import DirectoryState
    from barnabas.broker.membership.log_end_reports import LogEndReports
    from barnabas.broker.metadata.metadata_image import Endpoint
    from barnabas.network.node import Node
    from barnabas.protocol.message import Message

NO_EPOCH = -1
#: How soon a broker says again that it wants something of the controller, in seconds.
_EAGER = 0.05
_BACKOFF, _MAX_BACKOFF = 0.1, 1.0


class LifecycleState(Enum):
    """Where a broker stands (Kafka's BrokerState)."""

    STARTING = "starting"
    RECOVERY = "recovery"
    RUNNING = "running"
    PENDING_CONTROLLED_SHUTDOWN = "pending controlled shutdown"
    SHUTTING_DOWN = "shutting down"


class Identity(NamedTuple):
    """What a broker registers with; `previous_epoch` is that of its last life if that ended cleanly, else -1."""

    node_id: int
    cluster_id: str
    incarnation_id: bytes
    listeners: Mapping[str, Endpoint]
    features: Mapping[str, tuple[int, int]]
    rack: str | None
    directory_ids: tuple[bytes, ...]
    previous_epoch: int = NO_EPOCH


def registered_directories(directories: Sequence[DirectoryState]) -> tuple[list[bytes], int]:
    """Return the ids of the data directories in service, and the epoch of the broker's last life; -1 for none.

    Only where all directories were closed in one life the broker has ended cleanly.
    """
    in_service = [found.manager.log_directory for found in directories if found.problem is None]
    epochs = {directory.previous_broker_epoch for directory in in_service}
    is_clean = len(epochs) == 1 and len(in_service) == len(directories)
    ids = [directory.directory_id for directory in in_service]
    return [directory_id for directory_id in ids if directory_id], epochs.pop() if is_clean else NO_EPOCH


class BrokerLifecycle:
    """Keeps the controller told that this broker lives; a `Requester`.

    `controller()` is the active one as far as is known, `metadata_offset()` the last offset that the broker goes by.
    `on_changed` is called when the state or the broker's epoch changed. `heartbeat_interval` is in seconds.
    """

    def __init__(
        self,
        identity: Identity,
        controller: Callable[[], Node | None],
        metadata_offset: Callable[[], int],
        *,
        heartbeat_interval: float,
        report: Callable[[str], None],
    ) -> None:
        self._identity = identity
        self._controller = controller
        self._metadata_offset = metadata_offset
        self._interval = heartbeat_interval
        self._report = report
        self._next = -inf
        self._failures = 0
        self._last_reported = 0
        self._is_registered = False
        self.is_ready_to_unfence = False
        #: Gives the ids of the data directories that are out of service.
        self.offline_directories: Callable[[], list[bytes]] = list
        #: Tells the controller where logs end; None: this broker does not tell.
        self.log_ends: LogEndReports | None = None
        self.broker_epoch = NO_EPOCH
        self.state = LifecycleState.STARTING
        self.on_changed: Callable[[], None] = lambda: None

    # -- what the broker wants ---------------------------------------------------------------------------------------

    def hurry(self) -> None:
        """Say at once what there is to say: the metadata have moved on while this broker is fenced, or wants to be."""
        has_news = self.log_ends is not None and self.log_ends.has_news
        is_waiting = self.state is not LifecycleState.RUNNING or not self.is_ready_to_unfence
        if (is_waiting or has_news) and not self._failures:
            self._next = -inf

    def directory_failed(self) -> None:
        """Say at once which data directories are out of service: what they hold is to be led elsewhere."""
        if self._is_registered and not self._failures:
            self._next = -inf

    def begin_controlled_shutdown(self) -> None:
        """Ask the controller to move leadership elsewhere; `SHUTTING_DOWN` is reached when it has."""
        if not self._is_registered:
            self._go_to(LifecycleState.SHUTTING_DOWN)
        elif self.state is not LifecycleState.SHUTTING_DOWN:
            self._next = -inf
            self._go_to(LifecycleState.PENDING_CONTROLLED_SHUTDOWN)

    # -- requests ----------------------------------------------------------------------------------------------------

    def next_deadline(self) -> float:
        """See `Requester`."""
        return inf if self.state is LifecycleState.SHUTTING_DOWN or self._controller() is None else self._next

    def next_request(self, now: float) -> tuple[Node, Message] | None:
        """See `Requester`."""
        controller = self._controller()
        if controller is None or now < self.next_deadline():
            return None
        return controller, self._heartbeat() if self._is_registered else self._registration()

    def _registration(self) -> BrokerRegistrationRequest:
        identity = self._identity
        return BrokerRegistrationRequest(
            broker_id=identity.node_id,
            cluster_id=identity.cluster_id,
            incarnation_id=identity.incarnation_id,
            listeners=[
                Listener(name=name, host=found.host, port=found.port, security_protocol=found.security_protocol)
                for name, found in identity.listeners.items()
            ],
            features=[
                Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in identity.features.items()
            ],
            rack=identity.rack,
            log_dirs=sorted(identity.directory_ids),
            previous_broker_epoch=identity.previous_epoch,
        )

    def _heartbeat(self) -> BrokerHeartbeatRequest:
        request = BrokerHeartbeatRequest(
            broker_id=self._identity.node_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=self._metadata_offset(),
            want_fence=not self.is_ready_to_unfence,
            want_shut_down=self.state is LifecycleState.PENDING_CONTROLLED_SHUTDOWN,
            offline_log_dirs=self.offline_directories(),
        )
        if self.log_ends is not None:
            tell(request, self.log_ends.take())
        return request

    # -- responses ---------------------------------------------------------------------------------------------------

    def disconnected(self, now: float) -> None:
        """See `Requester`."""
        self._wait_after_failure(now)

    def receive(self, response: Message, now: Instant) -> None:
        """See `Requester`."""
        if isinstance(response, BrokerRegistrationResponse):
            if response.error_code:
                self._refused("registration", response.error_code, now.now)
            else:
                self._registered(response.broker_epoch)
        elif isinstance(response, BrokerHeartbeatResponse):
            if response.error_code:
                self._refused("heartbeat", response.error_code, now.now)
            else:
                self._heard(response, now.now)

    def _registered(self, epoch: int) -> None:
        self._failures = self._last_reported = 0
        self._is_registered, self.broker_epoch, self._next = True, epoch, -inf
        self.on_changed()

    def _heard(self, response: BrokerHeartbeatResponse, now: float) -> None:
        self._failures = self._last_reported = 0
        state = self.state
        self._next = now + (self._interval if state is LifecycleState.RUNNING else _EAGER)
        if state is LifecycleState.STARTING and response.is_caught_up:
            self._go_to(LifecycleState.RECOVERY)
        elif state is LifecycleState.RECOVERY and not response.is_fenced:
            self._next = now + self._interval
            self._go_to(LifecycleState.RUNNING)
        elif state is LifecycleState.PENDING_CONTROLLED_SHUTDOWN and response.should_shut_down:
            self._go_to(LifecycleState.SHUTTING_DOWN)
        if self.log_ends is not None and self.log_ends.has_news:
            self._next = -inf

    def _refused(self, what: str, code: int, now: float) -> None:
        if code != self._last_reported and code != errors.NotControllerError.code:
            self._last_reported = code
            self._report(f"the controller refuses the {what} of broker {self._identity.node_id}: {_reason(code)}")
        if code == errors.BrokerIdNotRegisteredError.code:
            # It was unregistered while it lived.
            self._is_registered = False
        if code == errors.StaleBrokerEpochError.code and self.state is LifecycleState.PENDING_CONTROLLED_SHUTDOWN:
            # This life leads nothing any more that could be handed over.
            self._go_to(LifecycleState.SHUTTING_DOWN)
        self._wait_after_failure(now)

    def _wait_after_failure(self, now: float) -> None:
        self._next = now + min(_MAX_BACKOFF, _BACKOFF * 2**self._failures)
        self._failures = min(self._failures + 1, 10)

    def _go_to(self, state: LifecycleState) -> None:
        self.state = state
        self.on_changed()


def _reason(code: int) -> str:
    known = {
        errors.DuplicateBrokerRegistrationError.code: (
            "another process with this node.id is registered and alive; if it was this broker's last life, its session "
            "expires after broker.session.timeout.ms"
        ),
        errors.StaleBrokerEpochError.code: (
            "another process has registered with this node.id since; stop one of them. Or it was unregistered; start "
            "it again if it is to be back"
        ),
        errors.InconsistentClusterIdError.code: "it belongs to another cluster than this data directory",
        errors.UnsupportedVersionError.code: (
            "a feature of the cluster is at a level that this version of barnabas does not have"
        ),
    }
    return known.get(code) or errors.name_of(code)
