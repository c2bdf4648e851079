"""What a member of a cluster asks of its control plane, KRaft's or ZooKeeper's."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from barnabas.broker.config_admin_manager import WriteSettings
    from barnabas.broker.handlers.registry import Handler
    from barnabas.broker.membership.broker_lifecycle import LifecycleState
    from barnabas.broker.membership.broker_metadata_publisher import Roles
    from barnabas.broker.membership.log_end_reports import LogEndReports
    from barnabas.broker.membership.node_to_controller_channel import ControllerRequests
    from barnabas.broker.metadata.image_store import ImageStore
    from barnabas.broker.metadata.metadata_image import Endpoint, MetadataImage
    from barnabas.broker.request_dispatcher import Service
    from barnabas.broker.requester import Requester
    from barnabas.broker.security.authorization import WriteAcls
    from barnabas.broker.security.delegation_tokens import WriteTokens
    from barnabas.broker.zookeeper.controller.controller_stats import ControllerStats
    from barnabas.errors import KafkaError
    from barnabas.network.node import Node
    from barnabas.protocol.topic_partition import TopicPartition


class ControlledMember(Protocol):
    """What a control plane asks of the member that it belongs to, see `ClusterMember`."""

    forwarded: ControllerRequests

    @property
    def image(self) -> MetadataImage:
        """The newest metadata that are known."""

    @property
    def has_joined(self) -> bool:
        """Whether there is a node that goes by the metadata."""

    @property
    def is_recovering(self) -> bool:
        """Whether a role waits for its log."""

    @property
    def failed_roles(self) -> Mapping[TopicPartition, KafkaError]:
        """The partitions whose role could not be taken, with the reason."""

    def publish(self, image: MetadataImage, roles: Roles | None = None) -> bool:
        """Have the node go by another image; False where that is too early."""

    def open(self, name: str, requester: Requester, timeout: float = inf) -> None:
        """Give a requester its way to the controllers, under the name of a client; a request may take so long."""

    def leave_other_controllers(self, controller: Node) -> None:
        """Wait for no answer of a controller that is not the active one any more."""

    def open_to_broker(self, key: object, requester: Requester, name: str) -> None:
        """Give a requester its way to other brokers, under the name of a client."""

    def close(self, key: object) -> None:
        """Take the way of a requester away: what it has in flight is not answered."""

    def wake(self, key: object) -> None:
        """Have one requester asked soon."""

    def wake_all(self) -> None:
        """Have all requesters asked soon: they may reach now what they could not reach before."""

    @property
    def failed_directories(self) -> int:
        """How many data directories are out of service."""

    @property
    def log_ends(self) -> LogEndReports:
        """Where this broker's logs end, of partitions that the controller asks about."""

    def offline_directories(self) -> list[bytes]:
        """Return the ids of the data directories that went out of service since the broker was started."""

    def node(self, broker_id: int) -> Node | None:
        """Return where brokers reach another broker."""


class ControlPlane(Protocol):
    """Where a member's metadata and roles come from, and who decides for it: `KRaftControl`, `ZooKeeperControl`.

    The order of its life: `attach`, `observe` until `is_caught_up`, `make_store`, `register`, `leave` until `is_out`.
    `takes_roles_from_images` tells that what an image has of this broker's partitions are its roles; else the control
    plane gives them with `ClusterMember.publish`. `services` get their time from the dispatcher. `on_changed` is called
    when any of this may have changed.
    """

    takes_roles_from_images: bool
    on_changed: Callable[[], None]
    services: Sequence[Service]

    @property
    def served(self) -> Mapping[int, tuple[str, int, int]]:
        """What is served in such clusters only, as `SERVED` has it: name, lowest and highest version by API."""

    @property
    def image(self) -> MetadataImage:
        """The newest metadata that are known."""

    @property
    def controller(self) -> Node | None:
        """The active controller, and where this broker reaches it, as far as is known."""

    @property
    def controller_id(self) -> int | None:
        """Whom clients are told to send to what is for the controller; None: any broker, for each forwards."""

    @property
    def broker_epoch(self) -> int:
        """The epoch of this broker's registration; -1 for none."""

    @property
    def is_caught_up(self) -> bool:
        """Whether the metadata are read."""

    @property
    def knows_this_life(self) -> bool:
        """Whether roles that it gives are for this life of the broker; before, they may be what the last one had."""

    @property
    def problem(self) -> Exception | None:
        """Why the metadata cannot be read; None while they can."""

    @property
    def is_out(self) -> bool:
        """Whether the controller has let the broker go."""

    @property
    def write_settings(self) -> WriteSettings | None:
        """How this broker itself stores settings of topics and brokers; None where the controller does."""

    @property
    def write_acls(self) -> WriteAcls | None:
        """How this broker itself stores ACLs; None where the controller does."""

    @property
    def controller_stats(self) -> ControllerStats | None:
        """What this broker counts as a controller under ZooKeeper; None under KRaft."""

    @property
    def write_tokens(self) -> WriteTokens | None:
        """How this broker itself stores delegation tokens; None where the controller does."""

    @property
    def expires_tokens(self) -> bool:
        """Whether it is this broker that takes expired tokens away, where brokers store them."""

    def controller_numbers(self) -> Iterable[tuple[str, str, float]]:
        """See `MemberPort`."""

    def attach(self, member: ControlledMember) -> None:
        """Take note of whose control plane this is."""

    def observe(self) -> None:
        """Begin to read the metadata."""

    def make_store(self) -> ImageStore:
        """Return a home for the metadata of the node that is to join."""

    def published(self) -> None:
        """Take note that the broker goes by another image, or has taken a role that had failed."""

    def directory_failed(self) -> None:
        """Have the controller know of a data directory that went out of service."""

    def register(
        self,
        listeners: Mapping[str, Endpoint],
        directory_ids: Sequence[bytes],
        previous_epoch: int,
        on_state: Callable[[LifecycleState], None],
    ) -> None:
        """Have the cluster know that the broker is there, and where it is reached."""

    def leave(self) -> None:
        """Ask the controller to move this broker's leaderships elsewhere."""

    def handler(self, api_key: int, local: Handler | None) -> Handler:
        """Return what serves an API: the controller, the control plane, or (`local`) the broker itself."""
