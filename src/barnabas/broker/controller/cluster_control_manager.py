"""Registrations of brokers and controllers (ClusterControlManager, KIP-631, KIP-919)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from barnabas import errors
from barnabas.broker.controller.broker_heartbeat_manager import BrokerHeartbeatManager, BrokerIdAndEpoch
from barnabas.broker.controller.controller_result import ControllerResult, Records
from barnabas.broker.controller.replica_placer import StripedReplicaPlacer, UsableBroker
from barnabas.broker.metadata.metadata_records import ApiMessageAndVersion
from barnabas.broker.metadata.metadata_version import METADATA_VERSION
from barnabas.broker.metadata.partition_registration import UNASSIGNED_DIRECTORY, is_reserved_directory
from barnabas.errors import IllegalStateError
from barnabas.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from barnabas.protocol.messages.fence_broker_record import FenceBrokerRecord
from barnabas.protocol.messages.register_broker_record import BrokerEndpoint, BrokerFeature, RegisterBrokerRecord
from barnabas.protocol.messages.register_controller_record import (
    ControllerEndpoint,
    ControllerFeature,
    RegisterControllerRecord,
)
from barnabas.protocol.messages.unfence_broker_record import UnfenceBrokerRecord
from barnabas.protocol.messages.unregister_broker_record import UnregisterBrokerRecord

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from random import Random

    from barnabas.broker.controller.controller_result import ControllerRequestContext
    from barnabas.broker.controller.controller_state import ControllerState
    from barnabas.broker.metadata.metadata_image import BrokerRegistration
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.broker_registration_request import BrokerRegistrationRequest
    from barnabas.protocol.messages.controller_registration_request import ControllerRegistrationRequest

#: From this version of BrokerRegistration on brokers say how their last life ended (KIP-966).
_TELLS_PREVIOUS_EPOCH_FROM = 3


class PreviousLife(NamedTuple):
    """A broker's earlier life that a registration ends; `was_clean`: it has lost nothing."""

    broker_id: int
    was_clean: bool


class ClusterControlManager:
    """The brokers of the cluster; `cleanup` gives the records that end a broker's earlier life."""

    def __init__(self, state: ControllerState, cluster_id: str, session_timeout: float, random: Random) -> None:
        self._state = state
        self._cluster_id = cluster_id
        self._session_timeout = session_timeout
        self._placer = StripedReplicaPlacer(random)
        #: Whether the next life of a broker has to wait for the end of a session, as under Apache Kafka's controllers.
        self.waits_for_sessions = False
        self._heartbeats: BrokerHeartbeatManager | None = None

    # -- while active ------------------------------------------------------------------------------------------------

    def activate(self, now: float) -> None:
        """Begin to watch the brokers; each that is alive gets a whole session to be heard of."""
        self._heartbeats = manager = BrokerHeartbeatManager(self._session_timeout)
        for broker in self._state.image.brokers.values():
            manager.register(broker.id, broker.fenced)
            if not broker.fenced:
                manager.track(BrokerIdAndEpoch(broker.id, broker.epoch), now)

    def deactivate(self) -> None:
        """Stop watching the brokers."""
        self._heartbeats = None

    @property
    def heartbeats(self) -> BrokerHeartbeatManager:
        """What heartbeats say. Raises `IllegalStateError` when this controller is not active."""
        if self._heartbeats is None:
            raise IllegalStateError("ClusterControlManager is not active.")
        return self._heartbeats

    def follow(self, records: list[Message]) -> None:
        """Take in what records that were replayed say of brokers."""
        manager = self._heartbeats
        if manager is None:
            return
        for record in records:
            if isinstance(record, RegisterBrokerRecord):
                manager.remove(record.broker_id)
                manager.register(record.broker_id, record.fenced)
            elif isinstance(record, UnregisterBrokerRecord):
                manager.remove(record.broker_id)
            elif isinstance(record, FenceBrokerRecord | UnfenceBrokerRecord):
                manager.register(record.id, isinstance(record, FenceBrokerRecord))
            elif isinstance(record, BrokerRegistrationChangeRecord):
                broker = self._state.registration(record.broker_id)
                if broker is not None:
                    manager.register(broker.id, broker.fenced)

    # -- placing replicas --------------------------------------------------------------------------------------------

    def place(self, count: int, replication_factor: int) -> list[list[int]]:
        """Return the replicas of new partitions. Raises `InvalidReplicationFactorError`."""
        return self._placer.place(count, replication_factor, self._usable_brokers())

    def _usable_brokers(self) -> Iterator[UsableBroker]:
        for broker_id, is_fenced in self.heartbeats.usable():
            broker = self._state.registration(broker_id)
            if broker is not None and broker.has_open_directory:
                yield UsableBroker(broker_id, broker.rack, is_fenced)

    def default_directory(self, broker_id: int) -> bytes:
        """Return where a new replica lies on a broker, as far as that is known."""
        broker = self._state.registration(broker_id)
        return UNASSIGNED_DIRECTORY if broker is None else broker.default_directory

    # -- registrations -----------------------------------------------------------------------------------------------

    def previous_life(self, request: BrokerRegistrationRequest, version: int) -> PreviousLife | None:
        """Return the life that a registration ends; None when it is the same life that registers again."""
        existing = self._state.registration(request.broker_id)
        if existing is not None and existing.incarnation_id == request.incarnation_id:
            return None
        is_told = version >= _TELLS_PREVIOUS_EPOCH_FROM and existing is not None
        was_clean = is_told and existing is not None and existing.epoch == request.previous_broker_epoch
        return PreviousLife(request.broker_id, was_clean)

    def check_registration(
        self, request: BrokerRegistrationRequest, finalized: Mapping[str, int], context: ControllerRequestContext
    ) -> BrokerRegistration | None:
        """Return what is registered under the broker's id.

        Raises `InconsistentClusterIdError`, `DuplicateBrokerRegistrationError` while another process with this id has
        a session and may live, `InvalidRegistrationError`, `UnsupportedVersionError` for a feature's level that it does
        not have.
        """
        if request.cluster_id != self._cluster_id:
            raise errors.InconsistentClusterIdError(
                f"Expected cluster ID {self._cluster_id}, but got cluster ID {request.cluster_id}"
            )
        existing = self._state.registration(request.broker_id)
        if existing is not None and existing.incarnation_id != request.incarnation_id:
            whose = BrokerIdAndEpoch(existing.id, existing.epoch)
            has_session = self.heartbeats.has_valid_session(whose, context.now.now)
            if has_session and not self._ends_last_life(request, existing, context.connection):
                raise errors.DuplicateBrokerRegistrationError(
                    "Another broker is registered with that broker id. If the broker was recently restarted this "
                    "should self-resolve once the heartbeat manager expires the broker's session."
                )
        if request.is_migrating_zk_broker:
            raise errors.BrokerIdNotRegisteredError("Controller does not support registering ZK brokers.")
        if self._state.metadata_version.is_directory_assignment_supported:
            self._check_directories(request)
        _check_features(request, finalized)
        return existing

    def _ends_last_life(
        self, request: BrokerRegistrationRequest, existing: BrokerRegistration, connection: int
    ) -> bool:
        """Whether a registration proves that the broker's last life has ended: no other process has its addresses.

        Not so on a connection that was there when that life was heard of: it is an earlier one's, which comes late.
        """
        whose = BrokerIdAndEpoch(existing.id, existing.epoch)
        if self.waits_for_sessions or connection <= self.heartbeats.last_connection(whose):
            return False
        named = {found.name: (found.host, found.port, found.security_protocol) for found in request.listeners}
        return bool(named) and named == existing.listeners

    def _check_directories(self, request: BrokerRegistrationRequest) -> None:
        directories = request.log_dirs
        if not directories:
            raise errors.InvalidRegistrationError("No directories specified in request")
        if any(is_reserved_directory(found) for found in directories):
            raise errors.InvalidRegistrationError("Reserved directory ID in request")
        if len(set(directories)) < len(directories):
            raise errors.InvalidRegistrationError("Duplicate directory ID in request")
        for other in self._state.image.brokers.values():
            shared = set(other.directories) & set(directories)
            if shared and other.id != request.broker_id:
                raise errors.InvalidRegistrationError(
                    f"Broker {other.id} is already registered with directory {min(shared).hex()}"
                )

    def register_broker(
        self,
        request: BrokerRegistrationRequest,
        existing: BrokerRegistration | None,
        cleanup: Records,
        new_epoch: int,
    ) -> ControllerResult[int]:
        """Register a broker whose request was checked; the response is its epoch.

        The registration comes last: if only a part of `cleanup` is written before the controller fails, the broker
        registers again, and the next controller does the rest.
        """
        record = RegisterBrokerRecord(
            broker_id=request.broker_id,
            incarnation_id=request.incarnation_id,
            broker_epoch=new_epoch,
            end_points=[
                BrokerEndpoint(
                    name=found.name, host=found.host, port=found.port, security_protocol=found.security_protocol
                )
                for found in request.listeners
            ],
            features=[
                BrokerFeature(
                    name=found.name,
                    min_supported_version=found.min_supported_version,
                    max_supported_version=found.max_supported_version,
                )
                for found in request.features
            ],
            rack=request.rack,
        )
        if self._state.metadata_version.is_directory_assignment_supported:
            record.log_dirs = list(request.log_dirs)
        if existing is not None and existing.incarnation_id == request.incarnation_id:
            record.broker_epoch = existing.epoch
            record.fenced, record.in_controlled_shutdown = existing.fenced, existing.in_controlled_shutdown
        version = self._state.metadata_version.register_broker_record_version
        return ControllerResult([*cleanup, ApiMessageAndVersion(record, version)], record.broker_epoch)

    def register_controller(self, request: ControllerRegistrationRequest) -> ControllerResult[None]:
        """Register a controller. Raises `UnsupportedVersionError` below metadata.version 3.7-IV0."""
        if not self._state.metadata_version.is_controller_registration_supported:
            raise errors.UnsupportedVersionError(
                "The current MetadataVersion is too old to support controller registrations."
            )
        record = RegisterControllerRecord(
            controller_id=request.controller_id,
            incarnation_id=request.incarnation_id,
            end_points=[
                ControllerEndpoint(
                    name=found.name, host=found.host, port=found.port, security_protocol=found.security_protocol
                )
                for found in request.listeners
            ],
            features=[
                ControllerFeature(
                    name=found.name,
                    min_supported_version=found.min_supported_version,
                    max_supported_version=found.max_supported_version,
                )
                for found in request.features
            ],
        )
        return ControllerResult([ApiMessageAndVersion(record)], None, True)


def _check_features(request: BrokerRegistrationRequest, finalized: Mapping[str, int]) -> None:
    offered = {found.name: (found.min_supported_version, found.max_supported_version) for found in request.features}
    for name in dict.fromkeys([*offered, *(name for name in finalized if finalized[name])]):
        low, high = offered.get(name, (0, 0))
        level = finalized.get(name, 0)
        if name == METADATA_VERSION and name not in offered:
            raise errors.InvalidRegistrationError(f"Request features do not contain '{METADATA_VERSION}'")
        if not low <= level <= high:
            raise errors.UnsupportedVersionError(
                f"Unable to register because the broker does not support finalized version {level} of {name}. The "
                f"broker wants a version between {low} and {high}, inclusive."
            )
