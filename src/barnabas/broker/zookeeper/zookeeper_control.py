"""The control plane of a member under ZooKeeper: registration, znodes, and what controllers send (KafkaServer)."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from barnabas import errors
from barnabas.broker.faults import fault_text
from barnabas.broker.membership.broker_lifecycle import NO_EPOCH, LifecycleState
from barnabas.broker.metadata.image_store import ImageStore
from barnabas.broker.metadata.metadata_delta import MetadataDelta
from barnabas.broker.metadata.metadata_image import MetadataImage
from barnabas.broker.zookeeper import acl_znodes, metadata_znodes, token_znodes, znodes
from barnabas.broker.zookeeper.controlled_shutdown import ControlledShutdown, Retries
from barnabas.broker.zookeeper.controller.controller_apis import OF_BROKERS
from barnabas.broker.zookeeper.controller_numbers import controller_numbers
from barnabas.broker.zookeeper.controller_pushes import PUSHED, ControllerPushes
from barnabas.broker.zookeeper.controller_role import ControllerRole
from barnabas.broker.zookeeper.guarded_session import GuardedSession
from barnabas.broker.zookeeper.log_dir_events import LogDirEvents
from barnabas.broker.zookeeper.operations import ConnectionLostError
from barnabas.broker.zookeeper.plain_forwarding import PlainForwarding
from barnabas.broker.zookeeper.program_queue import ProgramQueue
from barnabas.broker.zookeeper.registration import Registration
from barnabas.broker.zookeeper.stored_secrets import StoredSecrets
from barnabas.broker.zookeeper.znode_writes import ZnodeWrites

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from barnabas.broker.config import BrokerConfig
    from barnabas.broker.config_admin_manager import ConfigsChange
    from barnabas.broker.handlers.registry import Handler
    from barnabas.broker.membership.broker_metadata_publisher import Roles
    from barnabas.broker.membership.control_plane import ControlledMember
    from barnabas.broker.metadata.cluster_metadata import Done
    from barnabas.broker.metadata.metadata_image import Endpoint
    from barnabas.broker.request_dispatcher import Service
    from barnabas.broker.security.acl_binding import AclBinding
    from barnabas.broker.security.delegation_tokens import DelegationToken
    from barnabas.broker.zookeeper.controller.broker_lifelines import BrokerLifelines
    from barnabas.broker.zookeeper.controller.controller_stats import ControllerStats
    from barnabas.broker.zookeeper.entity_settings import Edits
    from barnabas.broker.zookeeper.operations import Program, ZooKeeperSession
    from barnabas.network.node import Node
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.update_metadata_request import UpdateMetadataRequest
    from barnabas.protocol.topic_partition import TopicPartition

T = TypeVar("T")


class Found(NamedTuple):
    """What stands in ZooKeeper; no ACLs or tokens where the settings ask for none."""

    cluster: metadata_znodes.ClusterZnodes
    acls: acl_znodes.FoundAcls | None
    tokens: token_znodes.FoundTokens | None


class ZooKeeperControl:
    """Implements `ControlPlane`, `SessionListener` and `PushTarget`.

    `known_cluster_id` is that of the data directory, `wall_clock_ms` the time that stands in the registration.
    """

    takes_roles_from_images = False
    #: LeaderAndIsr names the epoch of the broker that it is for.
    knows_this_life = True
    served = PUSHED | OF_BROKERS

    def __init__(
        self,
        config: BrokerConfig,
        session: ZooKeeperSession,
        random: random.Random,
        report: Callable[[str], None],
        wall_clock_ms: Callable[[], int],
        known_cluster_id: str | None = None,
    ) -> None:
        self._config = config
        self._me = config.node_id
        self._session = GuardedSession(session, lambda what, problem: report(fault_text(what, problem)))
        self._session.on_renew = self._begin_anew
        self._programs = ProgramQueue(self._session)
        self._writes = ZnodeWrites(self._programs, lambda: self.on_answered())
        self._report = report
        self._wall_clock_ms = wall_clock_ms
        self._random = random
        self._secrets = StoredSecrets(config, random.randbytes, report)
        self._known_cluster_id = known_cluster_id
        self._new_cluster_id = known_cluster_id or urlsafe_b64encode(random.randbytes(16)).rstrip(b"=").decode()
        self._cluster_id: str | None = None
        self._connections = 0
        self._last_change = -1
        self._last_acl_changes: dict[str, int] = {}
        self._last_token_change = -1
        self._controller_id: int | None = None
        self._state = LifecycleState.STARTING
        self._on_state: Callable[[LifecycleState], None] = lambda state: None
        self._registration = Registration(self._me, self._session, report, self._registered)
        self._pushes = ControllerPushes(self._me, self)
        self._registration.on_decided = self._pushes.go_on
        self.image = MetadataImage()
        self.is_caught_up = False
        self.problem: Exception | None = None
        self.on_changed: Callable[[], None] = lambda: None
        self.on_answered: Callable[[], None] = lambda: None

    def attach(self, member: ControlledMember) -> None:
        """See `ControlPlane`."""
        self._member = member
        self._forwarding = PlainForwarding(member.forwarded)
        self._role = ControllerRole(
            self._config, member, self._session, self._random, self._report, self._wall_clock_ms
        )
        self._role.controller.on_changed = self._controller_changed
        pushes = self._pushes
        events = LogDirEvents(self._me, self._session, lambda: member.failed_directories + pushes.times_mended())
        self.services: Sequence[Service] = (self._session, *self._role.services, events)

    # -- the session -------------------------------------------------------------------------------------------------

    @property
    def lifelines(self) -> BrokerLifelines:
        """The connections by which the end of other brokers is seen."""
        return self._role.controller.lifelines

    def observe(self) -> None:
        """See `ControlPlane`."""
        self._session.start(self)

    def connected(self, session_id: int) -> None:
        """See `SessionListener`: read everything again, for no watch may be left, and changes may have been missed."""
        self._connections += 1
        self._registration.connected(session_id)
        self._role.controller.connected(session_id)
        known = frozenset(self.image.topics)
        self._run(self._read, lambda found: self._take_in(found, known), self._not_read)
        self._writes.connected()

    def disconnected(self) -> None:
        """See `SessionListener`."""
        self._role.controller.disconnected()
        if self.is_caught_up:
            self._report(
                "no ZooKeeper server is reached: settings of new topics are not read, and if this lasts longer than "
                "zookeeper.session.timeout.ms the controller takes this broker for dead"
            )

    def changed(self, path: str) -> None:
        """See `SessionListener`."""
        if path == znodes.CONFIG_CHANGES:
            self._run(lambda: metadata_znodes.read_changes(self._last_change, self._tell), self._take_changes)
        elif path == token_znodes.TOKEN_CHANGES:
            self._run(lambda: token_znodes.read_token_changes(self._last_token_change, self._tell), self._take_tokens)
        elif path in acl_znodes.ACL_CHANGES:
            self._run(
                lambda: acl_znodes.read_acl_changes(path, self._last_acl_changes.get(path, -1), self._tell),
                self._take_acls,
            )
        else:
            self._registration.changed(path)
            self._role.controller.changed(path)

    def _run(
        self,
        program: Callable[[], Program[T]],
        done: Callable[[T], None],
        failed: Callable[[errors.KafkaError], None] | None = None,
    ) -> None:
        """Carry a program out; what comes of it counts only while the connection is the one it was asked for on.

        `failed` is told why it came to nothing otherwise, in place of who runs the broker.
        """
        connection = self._connections

        def finished(result: T | errors.KafkaError) -> None:
            if connection != self._connections or isinstance(result, ConnectionLostError):
                return
            try:
                if isinstance(result, errors.KafkaError):
                    raise result
                done(result)
            except errors.KafkaError as problem:
                (failed or self._failed)(problem)

        self._programs.run(program, finished)

    def _not_read(self, problem: errors.KafkaError) -> None:
        self._failed(problem)
        # What controllers tell reads for itself what it needs.
        self._pushes.retry()

    def _failed(self, problem: errors.KafkaError) -> None:
        if self.is_caught_up:
            self._tell(problem)
        else:
            self.problem = problem
            self.on_changed()

    def _tell(self, problem: errors.KafkaError) -> None:
        self._report(f"what ZooKeeper has was not taken over: {problem}")

    # -- what stands in znodes ---------------------------------------------------------------------------------------

    def _read(self) -> Program[Found]:
        cluster_id = yield from metadata_znodes.prepare(self._new_cluster_id)
        acls = (yield from acl_znodes.read_all_acls()) if self._config["authorizer.class.name"] else None
        has_tokens = self._config["delegation.token.secret.key"] is not None
        tokens = (yield from token_znodes.read_all_tokens(self._tell)) if has_tokens else None
        return Found((yield from metadata_znodes.read_cluster(cluster_id, self._tell)), acls, tokens)

    def _take_in(self, everything: Found, known: Collection[bytes]) -> None:
        """Go by what was read; `known` are the topics that were known when the reading began."""
        found, acls, tokens = everything
        if self._known_cluster_id not in (None, found.cluster_id):
            self._failed(
                errors.InconsistentClusterIdError(
                    f"the data directory belongs to cluster {self._known_cluster_id}, and zookeeper.connect names "
                    f"cluster {found.cluster_id}: check zookeeper.connect, or choose another data directory"
                )
            )
            return
        self._cluster_id, self._last_change = found.cluster_id, found.last_change
        self._encode_anew(found.settings)
        found = found._replace(settings=self._readable(found.settings))
        records = [
            *metadata_znodes.gone_records(self.image, found.topics, known),
            *metadata_znodes.cluster_records(self.image, found, self._tell),
        ]
        if acls is not None:
            self._last_acl_changes = dict(acls.last_changes)
            records += acl_znodes.acl_records(self.image, acls.acls, is_all=True)
        if tokens is not None:
            self._last_token_change = tokens.last_change
            records += token_znodes.token_records(self.image, tokens, is_all=True)
        self.change(records)
        self.is_caught_up = True
        self._pushes.retry()
        self.on_changed()

    def _take_changes(self, found: tuple[list[metadata_znodes.Change], int]) -> None:
        changes, last = found
        self._last_change = max(self._last_change, last)
        self._take_settings(changes)

    def _take_acls(self, found: acl_znodes.FoundAcls) -> None:
        for path, last in found.last_changes.items():
            self._last_acl_changes[path] = max(self._last_acl_changes[path], last)
        self.change(acl_znodes.acl_records(self.image, found.acls))

    def _take_tokens(self, found: token_znodes.FoundTokens) -> None:
        self._last_token_change = max(self._last_token_change, found.last_change)
        self.change(token_znodes.token_records(self.image, found))

    def look_for_gone_topics(self) -> None:
        """See `PushTarget`."""
        known = frozenset(self.image.topics)
        self._run(
            metadata_znodes.read_topic_names,
            lambda names: self.change(metadata_znodes.gone_records(self.image, names, known)),
        )

    def read_topic_settings(
        self, topics: Sequence[str], done: Callable[[list[Message] | errors.KafkaError], None]
    ) -> None:
        """See `PushTarget`."""

        def read(found: Sequence[metadata_znodes.Change]) -> None:
            done(list(metadata_znodes.settings_records(MetadataImage(), found, self._tell)))

        def failed(problem: errors.KafkaError) -> None:
            self._tell(problem)
            done(problem)

        entities = [f"topics/{name}" for name in topics]
        self._run(partial(metadata_znodes.read_settings, entities, self._tell), read, failed)

    def write_settings(self, changes: Sequence[ConfigsChange], done: Done) -> None:
        """See `ControlPlane`: write the znodes and announce them, as every broker of 3.9 does for itself."""
        try:
            entities = [self._stored(metadata_znodes.written(change)) for change in changes]
        except errors.KafkaError as problem:
            done(problem)
        else:
            self._write_settings(partial(metadata_znodes.write_settings, entities), entities, self._take_settings, done)

    def _write_settings(
        self,
        program: Callable[[], Program[T]],
        entities: Sequence[metadata_znodes.Change | Edits],
        take: Callable[[T], None],
        done: Done,
    ) -> None:
        announce = partial(metadata_znodes.announce, [change.entity for change in entities])
        self._writes.write(program, announce, take, done)

    def _stored(self, change: metadata_znodes.Change) -> metadata_znodes.Change:
        return change._replace(values=self._secrets.stored(change.entity, change.values or {}))

    def write_acls(self, added: Sequence[AclBinding], removed: Sequence[AclBinding], done: Done) -> None:
        """See `ControlPlane`: write the znodes and announce them, as every broker of 3.9 with an AclAuthorizer does."""
        try:
            patterns = dict.fromkeys(acl_znodes.Pattern.of(acl) for acl in (*added, *removed))
        except errors.KafkaError as problem:
            done(problem)
            return

        def program() -> Program[acl_znodes.Acls]:
            written = {}
            for pattern in patterns:
                change = partial(acl_znodes.changed_acls, pattern, added, removed)
                written[pattern] = yield from acl_znodes.update_acls(pattern, change)
            return written

        announce = partial(acl_znodes.announce, patterns)
        self._writes.write(
            program, announce, lambda found: self.change(acl_znodes.acl_records(self.image, found)), done
        )

    def write_tokens(self, changed: Sequence[DelegationToken], removed: Sequence[str], done: Done) -> None:
        """See `ControlPlane`: write the znodes and announce them, as every broker of 3.9 does."""
        announce = partial(token_znodes.announce, [*(token.id for token in changed), *removed])
        self._writes.write(partial(token_znodes.write_tokens, changed, removed), announce, self._take_tokens, done)

    @property
    def expires_tokens(self) -> bool:
        """See `ControlPlane`: the controller does it."""
        return self._role.active is not None

    def _edit_entities(self, edits: Sequence[Edits], done: Done) -> None:
        """Change quotas and credentials, as the controller."""
        self._write_settings(partial(metadata_znodes.edit_settings, edits), edits, self._take_settings, done)

    def _take_settings(self, changes: list[metadata_znodes.Change]) -> None:
        self.change(metadata_znodes.settings_records(self.image, self._readable(changes), self._tell))
        self._role.settings_changed(changes)

    def _readable(self, changes: Sequence[metadata_znodes.Change]) -> list[metadata_znodes.Change]:
        """Return settings with this broker's secrets in clear, as they stand in its file."""
        return [
            change
            if change.values is None or not change.entity.startswith("brokers/")
            else change._replace(values=self._secrets.readable(change.entity, change.values))
            for change in changes
        ]

    def _encode_anew(self, changes: Sequence[metadata_znodes.Change]) -> None:
        """Encrypt this broker's secrets with the secret that takes the old one's place, once it has started with it."""
        for entity, values in changes:
            anew = self._secrets.encoded_anew(entity, values or {})
            if anew is not None:
                # What was written is taken over by the notification that tells of it.
                change = [metadata_znodes.Change(entity, anew)]
                program = partial(metadata_znodes.write_settings, change)
                self._write_settings(program, change, lambda written: None, self._encoded_anew)

    def _encoded_anew(self, problem: errors.KafkaError | None) -> None:
        if problem is not None:
            self._report(
                f"this broker's secrets in ZooKeeper are still those of password.encoder.old.secret: {problem}"
            )

    def _begin_anew(self) -> None:
        """Go by nothing that a fault of this broker may have left half done; tell who waits for a write."""
        self._role.controller.begin_anew()
        lost = ConnectionLostError("/", "this broker has failed while it wrote")
        self._writes.give_up(lost)
        self._programs.begin_anew()

    def make_store(self) -> ImageStore:
        """See `ControlPlane`."""
        assert self._cluster_id is not None, "the znodes were read"
        return ImageStore(self._cluster_id, self.image)

    # -- what controllers send ---------------------------------------------------------------------------------------

    def change(self, records: Iterable[Message], roles: Roles | None = None) -> None:
        """See `PushTarget`."""
        from barnabas.broker.membership.broker_metadata_publisher import Roles

        delta, is_new = MetadataDelta(self.image), False
        for record in records:
            delta.replay(record)
            is_new = True
        if is_new:
            self.image = delta.apply(self.image.offset + 1, self._pushes.controller_epoch)
        if is_new or roles is not None:
            self._member.publish(self.image, roles or Roles({}))
            self._role.published(self.image)
            self._member.wake_all()
            self.on_changed()

    @property
    def other_epoch(self) -> int:
        """See `PushTarget`."""
        return self._registration.other_epoch

    @property
    def is_undecided(self) -> bool:
        """See `PushTarget`."""
        return self._registration.is_undecided

    @property
    def failed_roles(self) -> Mapping[TopicPartition, errors.KafkaError]:
        """See `PushTarget`."""
        return self._member.failed_roles

    def metadata_updated(self, request: UpdateMetadataRequest) -> None:
        """See `PushTarget`."""
        self._controller_id = request.controller_id
        is_alive = any(found.id == self._me for found in request.live_brokers)
        if is_alive and self._state is LifecycleState.STARTING and self.broker_epoch != NO_EPOCH:
            self._go_to(LifecycleState.RUNNING)

    @property
    def controller_id(self) -> int | None:
        """See `ControlPlane`."""
        known = self._known_controller
        return -1 if known is None else known

    @property
    def controller(self) -> Node | None:
        """See `ControlPlane`."""
        known = self._known_controller
        return None if known is None else self._member.node(known)

    def controller_numbers(self) -> Iterable[tuple[str, str, float]]:
        """See `ControlPlane`."""
        active = self._role.active
        return controller_numbers(None if active is None else active.context, self.controller_stats.state)

    @property
    def controller_stats(self) -> ControllerStats:
        """See `ControlPlane`."""
        return self._role.controller.stats

    @property
    def _known_controller(self) -> int | None:
        """What `/controller` says, or else who has sent UpdateMetadata."""
        elected = self._role.controller.controller_id
        return self._controller_id if elected is None else elected

    def _controller_changed(self) -> None:
        if self.controller is not None:
            self._member.leave_other_controllers(self.controller)
        self._member.wake_all()
        self.on_answered()
        self.on_changed()

    def published(self) -> None:
        """See `ControlPlane`."""

    def directory_failed(self) -> None:
        """See `ControlPlane`: `LogDirEvents` looks after each turn."""

    def handler(self, api_key: int, local: Handler | None) -> Handler:
        """See `ControlPlane`."""
        if api_key in PUSHED:
            return self._pushes.handle
        otherwise = None if api_key in OF_BROKERS else self._forwarding.handler(api_key, local)
        found = self._role.handler(api_key, otherwise, self._edit_entities) or otherwise
        assert found is not None, "what only brokers ask is the controller's"
        return found

    # -- the broker's life -------------------------------------------------------------------------------------------

    @property
    def broker_epoch(self) -> int:
        """See `ControlPlane`."""
        return self._registration.broker_epoch

    def register(
        self,
        listeners: Mapping[str, Endpoint],
        directory_ids: Sequence[bytes],
        previous_epoch: int,
        on_state: Callable[[LifecycleState], None],
    ) -> None:
        """See `ControlPlane`: make the ephemeral znode in `/brokers/ids`."""
        self._on_state = on_state
        rack = self._config["broker.rack"]
        self._registration.begin(lambda: znodes.encode_broker(listeners, rack, self._wall_clock_ms()))

    def _registered(self) -> None:
        self._role.controller.registered()
        self.on_changed()

    def leave(self) -> None:
        """See `ControlPlane`."""
        if not self._config.get_bool("controlled.shutdown.enable"):
            self._left(None)
            return
        if self._state is not LifecycleState.RUNNING or self.controller is None:
            self._left(None if self.controller is not None else "no controller is known")
            return
        self._go_to(LifecycleState.PENDING_CONTROLLED_SHUTDOWN)
        retries = Retries.of(self._config)
        epoch, controller = (lambda: self.broker_epoch), (lambda: self.controller)
        shutdown = ControlledShutdown(self._me, epoch, controller, self._left, self._is_alone, retries)
        self._member.open("controlled-shutdown", shutdown)

    def _is_alone(self) -> bool:
        return not any(found.is_alive and found.id != self._me for found in self._member.image.brokers.values())

    def _left(self, problem: str | None) -> None:
        if problem is not None:
            self._report(f"this broker ends without the controller's consent: {problem}")
        self._go_to(LifecycleState.SHUTTING_DOWN)

    @property
    def is_out(self) -> bool:
        """See `ControlPlane`."""
        return self._state is LifecycleState.SHUTTING_DOWN

    def _go_to(self, state: LifecycleState) -> None:
        self._state = state
        self._on_state(state)
        self.on_changed()
