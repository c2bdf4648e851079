"""The control plane of a member under KRaft controllers: the metadata log, registration, heartbeats, Envelopes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from barnabas.broker.envelope import OF_QUORUMS
from barnabas.broker.membership.broker_lifecycle import NO_EPOCH, BrokerLifecycle, Identity, LifecycleState
from barnabas.broker.membership.forwarding import Forwarding
from barnabas.broker.metadata.image_store import ImageStore
from barnabas.broker.raft.broker_observer import MetadataLogObserver
from barnabas.broker.raft.metadata_loader import MetadataLoader
from barnabas.protocol.api import stable_versions

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Mapping, Sequence

    from barnabas.broker.config import BrokerConfig
    from barnabas.broker.handlers.registry import Handler
    from barnabas.broker.membership.control_plane import ControlledMember
    from barnabas.broker.metadata.metadata_image import Endpoint, MetadataImage
    from barnabas.broker.raft.broker_observer import Retries
    from barnabas.broker.request_dispatcher import Service
    from barnabas.network.node import Node

#: Levels of features that a member of a cluster can go by. What has a level here and no API is left
#: to the other brokers: a cluster at that level is joined all the same.
FEATURES: dict[str, tuple[int, int]] = {
    "metadata.version": (7, 30),
    "kraft.version": (0, 1),
    "group.version": (0, 1),
    "transaction.version": (0, 2),
    "eligible.leader.replicas.version": (0, 1),
    "share.version": (0, 2),
    "streams.version": (0, 1),
}


class MetadataSource(Protocol):
    """Who reads the metadata log for a broker: `MetadataLogObserver`, or the log of this process's own controller."""

    on_leader_changed: Callable[[], None]

    @property
    def leader(self) -> Node | None:
        """The active controller, as far as is known."""

    @property
    def cluster_id(self) -> str | None:
        """The id of the cluster; None until it is known."""

    @property
    def is_caught_up(self) -> bool:
        """Whether all that is committed was read."""

    @property
    def retries(self) -> Retries:
        """How often the log was read anew after a fault."""

    @property
    def problem(self) -> Exception | None:
        """Why the log cannot be read now."""


class KRaftControl:
    """Implements `ControlPlane` under a quorum of controllers.

    `problem` is why the metadata log cannot be read, None while it can.
    """

    takes_roles_from_images = True
    services: Sequence[Service] = ()
    write_settings = None
    write_acls = None
    write_tokens = None
    expires_tokens = False

    def __init__(
        self,
        config: BrokerConfig,
        controllers: list[Node],
        random: random.Random,
        report: Callable[[str], None],
        cluster_id: str | None = None,
    ) -> None:
        self._config = config
        self._random = random
        self._report = report
        self.loader = MetadataLoader(self._loaded)
        self._lifecycle: BrokerLifecycle | None = None
        self._leaves_at_once = self._had_problem = False
        self.on_changed: Callable[[], None] = lambda: None
        observer = MetadataLogObserver(config.node_id, controllers, self.loader, cluster_id=cluster_id, report=report)
        patience = config.get_seconds("controller.quorum.request.timeout.ms")
        self._observe: Callable[[], None] = lambda: self._member.open("raft", observer, patience)
        self.observer: MetadataSource = observer
        self.observer.on_leader_changed = self._leader_changed

    def read_locally(self, source: MetadataSource, begin: Callable[[], None]) -> None:
        """Read the log of a controller in this process, in place of fetching it; `begin` has it read."""
        self.observer, self._observe = source, begin
        source.on_leader_changed = self._leader_changed

    def attach(self, member: ControlledMember) -> None:
        """See `ControlPlane`."""
        self._member = member
        self._forwarding = Forwarding(member.forwarded)

    # -- the metadata log --------------------------------------------------------------------------------------------

    @property
    def image(self) -> MetadataImage:
        """See `ControlPlane`."""
        return self.loader.image

    @property
    def controller(self) -> Node | None:
        """See `ControlPlane`."""
        return self.observer.leader

    @property
    def controller_id(self) -> int | None:
        """See `ControlPlane`."""
        return None

    #: The controllers count for themselves.
    controller_stats = None

    def controller_numbers(self) -> Iterator[tuple[str, str, float]]:
        """See `ControlPlane`: the controllers tell of themselves, this what it makes of them (BrokerServerMetrics)."""
        prefix = "server_broker_metadata_metrics_"
        yield f"{prefix}last_applied_record_offset", "Offset of the last record that was applied", self.image.offset
        yield f"{prefix}metadata_load_error_count", "Faults in reading the metadata log", self.observer.retries.count

    def observe(self) -> None:
        """See `ControlPlane`."""
        self._observe()

    @property
    def is_caught_up(self) -> bool:
        """See `ControlPlane`: whether the metadata log has been read to where the controllers were."""
        return self.observer.is_caught_up

    @property
    def knows_this_life(self) -> bool:
        """See `ControlPlane`: with the registration the controller gives what the last life led to others.

        A leader that was restarted before its session was over would else lead on in its old epoch, also if the end
        of its log was lost with the power, and others would cut theirs to it.
        """
        registered = self.image.brokers.get(self._config.node_id)
        return registered is not None and registered.epoch >= self.broker_epoch > NO_EPOCH

    @property
    def problem(self) -> Exception | None:
        """See `ControlPlane`."""
        return self.observer.problem

    def make_store(self) -> ImageStore:
        """See `ControlPlane`."""
        assert self.observer.cluster_id is not None, "the metadata were read"
        return ImageStore(self.observer.cluster_id, self.image)

    def _loaded(self, image: MetadataImage) -> None:
        if self._member.publish(image) and self._lifecycle is not None:
            self._lifecycle.hurry()
        self._member.wake_all()
        self.on_changed()

    def _leader_changed(self) -> None:
        if self.observer.leader is not None:
            self._member.leave_other_controllers(self.observer.leader)
        has_problem = self.observer.problem is not None
        if has_problem != self._had_problem:
            self._had_problem = has_problem
            # The controller fences a broker that asks for it, and has its partitions led elsewhere.
            self.published()
            if self._lifecycle is not None:
                self._lifecycle.hurry()
            self.on_changed()
        self._member.wake_all()

    def published(self) -> None:
        """See `ControlPlane`."""
        if self._lifecycle is not None and self._member.has_joined:
            # Once it was ready, a log that is made or opened anew makes its partition wait, not the whole broker.
            was_ready = self._lifecycle.is_ready_to_unfence
            is_ready = (was_ready or not self._member.is_recovering) and self.observer.problem is None
            self._lifecycle.is_ready_to_unfence = is_ready

    def directory_failed(self) -> None:
        """See `ControlPlane`."""
        if self._lifecycle is not None:
            self._lifecycle.directory_failed()
            self._member.wake_all()

    # -- what belongs to the controller ------------------------------------------------------------------------------

    @property
    def served(self) -> Mapping[int, tuple[str, int, int]]:
        """See `ControlPlane`."""
        return {key: ("forwarding", *stable_versions(key)) for key in sorted(OF_QUORUMS)}

    def handler(self, api_key: int, local: Handler | None) -> Handler:
        """See `ControlPlane`."""
        return self._forwarding.handler(api_key, local)

    # -- the broker's life -------------------------------------------------------------------------------------------

    def register(
        self,
        listeners: Mapping[str, Endpoint],
        directory_ids: Sequence[bytes],
        previous_epoch: int,
        on_state: Callable[[LifecycleState], None],
    ) -> None:
        """See `ControlPlane`: tell the controller that the broker is there, and where it is reached."""
        assert self.observer.cluster_id is not None
        identity = Identity(
            self._config.node_id,
            self.observer.cluster_id,
            self._random.randbytes(16),
            listeners,
            FEATURES,
            self._config["broker.rack"],
            tuple(directory_ids),
            previous_epoch,
        )
        lifecycle = self._lifecycle = BrokerLifecycle(
            identity,
            lambda: self.observer.leader,
            lambda: self.image.offset,
            heartbeat_interval=self._config.get_int("broker.heartbeat.interval.ms") / 1000,
            report=self._report,
        )
        lifecycle.offline_directories = self._member.offline_directories
        lifecycle.log_ends = self._member.log_ends

        def changed() -> None:
            if lifecycle.state is LifecycleState.STARTING:
                # The metadata may have had the registration before its answer was here.
                self._member.publish(self.image)
            on_state(lifecycle.state)

        lifecycle.on_changed = changed
        self.published()
        self._member.open("heartbeat", lifecycle, self._config.get_seconds("broker.session.timeout.ms"))

    def leave(self) -> None:
        """See `ControlPlane`."""
        if not self._config.get_bool("controlled.shutdown.enable"):
            # Its session expires, or the controller sees that its port is closed.
            self._leaves_at_once = True
        elif self._lifecycle is not None:
            self._lifecycle.begin_controlled_shutdown()
            self._member.wake_all()

    @property
    def is_out(self) -> bool:
        """See `ControlPlane`."""
        lifecycle = self._lifecycle
        return self._leaves_at_once or lifecycle is None or lifecycle.state is LifecycleState.SHUTTING_DOWN

    @property
    def broker_epoch(self) -> int:
        """See `ControlPlane`."""
        return NO_EPOCH if self._lifecycle is None else self._lifecycle.broker_epoch
