"""What a broker asks of its membership in a cluster (`membership.ClusterMember`); one that is alone has none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from barnabas.broker.config_admin_manager import WriteSettings
    from barnabas.broker.groups.share.offsets import EndOffset
    from barnabas.broker.metadata.metadata_image import MetadataImage
    from barnabas.broker.purgatory import DelayedOperation
    from barnabas.broker.security.authorization import WriteAcls
    from barnabas.broker.security.delegation_tokens import WriteTokens
    from barnabas.broker.share.state_operation import Answer, StateOperation
    from barnabas.broker.topic_admin import TopicCreation
    from barnabas.broker.transactions.marker import MarkerWriter
    from barnabas.broker.transactions.producer_id_manager import ProducerIdBlocks
    from barnabas.broker.transactions.verification import Verification
    from barnabas.broker.zookeeper.controller.controller_stats import ControllerStats
    from barnabas.protocol.message import Message

    #: Serves an API, as a module of `handlers` does.
    Handle = Callable[..., Message | DelayedOperation | None]


class ShareGroupPort(Protocol):
    """What share groups ask other brokers."""

    def ask(self, operation: StateOperation, tell: Callable[[Answer], None]) -> bool:
        """Ask the broker that coordinates a share-partition; False: that is this one.

        Raises CoordinatorNotAvailableError.
        """

    def end_offsets(self, local: EndOffset) -> EndOffset:
        """Return what tells where partitions end, wherever they are led; `local` is for this broker's."""


class MemberPort(Protocol):
    """The cluster, as far as parts of this broker need it."""

    @property
    def image(self) -> MetadataImage:
        """The newest metadata that are known."""

    @property
    def controller_id(self) -> int | None:
        """Whom clients are told to send to what is for the controller; None: any broker, for each forwards."""

    @property
    def served_apis(self) -> Mapping[int, tuple[str, int, int]]:
        """What is served in clusters only, as `SERVED` has it: name, lowest and highest version by API."""

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
        """Return what there is to tell of being controller (name, meaning, value); nothing where others are it."""

    @property
    def producer_ids(self) -> ProducerIdBlocks:
        """Where blocks of producer ids come from."""

    @property
    def topic_creation(self) -> TopicCreation:
        """What has topics made."""

    @property
    def verification(self) -> Verification:
        """What knows which partitions are in which transaction."""

    @property
    def share_groups(self) -> ShareGroupPort:
        """What share groups ask other brokers."""

    def handler(self, api_key: int, local: Handle | None) -> Handle:
        """Return what serves an API in a cluster: the controller, or this broker with what it has to ask others."""

    def markers(self, local: MarkerWriter) -> MarkerWriter:
        """Return what brings markers to partitions, wherever they are led; `local` is for this broker's."""
