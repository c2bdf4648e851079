"""What a member under ZooKeeper does for being controller: stands for election, answers what is for the controller."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.membership.refusals import refused
from barnabas.broker.purgatory import DelayedOperation
from barnabas.broker.silent_machines import Silence
from barnabas.broker.zookeeper import entity_settings
from barnabas.broker.zookeeper.controller import controller_apis
from barnabas.broker.zookeeper.controller.broker_lifelines import Life
from barnabas.broker.zookeeper.controller.controller_environment import ControllerSettings
from barnabas.broker.zookeeper.controller.controller_stats import UNCLEAN, UNCLEAN_TOPIC
from barnabas.broker.zookeeper.controller.kafka_controller import KafkaController
from barnabas.broker.zookeeper.controller.topic_waits import TopicWaits
from barnabas.broker.zookeeper.controller.zk_admin_manager import ZkAdminManager
from barnabas.protocol.kinds import ConfigResourceType

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.config import BrokerConfig
    from barnabas.broker.handlers.registry import Handler
    from barnabas.broker.membership.control_plane import ControlledMember
    from barnabas.broker.metadata.metadata_image import MetadataImage
    from barnabas.broker.request_context import RequestContext
    from barnabas.broker.zookeeper.controller.active_controller import ActiveController
    from barnabas.broker.zookeeper.metadata_znodes import Change
    from barnabas.broker.zookeeper.operations import ZooKeeperSession
    from barnabas.protocol.message import Message

_UNCLEAN = "unclean.leader.election.enable"
#: How a broker of ours names itself where it sends a request of a client on.
_FORWARDING = "-forwarding"
#: So many others, the silent controller perhaps among them, are asked whether this broker is cut off.
_MOST_WITNESSES = 4

#: Writes settings of an entity, and calls back with None, or with why that failed.
if TYPE_CHECKING:
    WriteEntities = Callable[[Sequence[entity_settings.Edits], Callable[[errors.KafkaError | None], None]], None]


class ControllerRole:
    """The controller that this broker is or may become, and what other parts tell it. `image` is what it goes by."""

    def __init__(
        self,
        config: BrokerConfig,
        member: ControlledMember,
        session: ZooKeeperSession,
        random: random.Random,
        report: Callable[[str], None],
        wall_clock_ms: Callable[[], int],
    ) -> None:
        self._config = config
        self._member = member
        self._waits = TopicWaits()
        self._admin = ZkAdminManager(self._waits, random, lambda: member.image)
        self.controller = KafkaController(
            controller_settings(config, lambda: member.image), session, member, random, report, wall_clock_ms
        )
        self.controller.lifelines.witnesses = self._witnesses
        self.services = (self.controller, self.controller.lifelines, self._waits)

    def _witnesses(self) -> list[Life]:
        """Return some of the other brokers, the next ones by their ids; a controller watches all of them anyway."""
        if self.active is not None:
            return []
        me, listener = self._config.node_id, self._config.inter_broker_listener
        others = [broker for broker in self._member.image.brokers.values() if broker.id != me]
        others.sort(key=lambda broker: (broker.id < me, broker.id))
        reached = [(broker, broker.listeners[listener]) for broker in others if listener in broker.listeners]
        return [Life(broker.id, broker.epoch, *where[:2]) for broker, where in reached[:_MOST_WITNESSES]]

    @property
    def active(self) -> ActiveController | None:
        """The controller, while this broker is it."""
        return self.controller.active

    # -- what happens in this broker ---------------------------------------------------------------------------------

    def published(self, image: MetadataImage) -> None:
        """Take note that this broker goes by another image."""
        self._waits.published(image)

    def settings_changed(self, changes: Sequence[Change]) -> None:
        """Elect leaders where settings now allow what they did not before."""
        active = self.active
        if active is None:
            return
        for change in changes:
            kind, _, name = change.entity.partition("/")
            if (change.values or {}).get(_UNCLEAN, "").strip().lower() == "true" and kind in ("topics", "brokers"):
                topic = name if kind == "topics" else None
                what = UNCLEAN if topic is None else f"{UNCLEAN_TOPIC}/{topic}"
                active.put(what, partial(active.unclean_allowed, topic))

    # -- requests ----------------------------------------------------------------------------------------------------

    def handler(self, api_key: int, otherwise: Handler | None, write: WriteEntities) -> Handler | None:
        """Return what serves an API: the controller if this broker is it, else `otherwise`; None for what is not its.

        What another broker has sent on is refused where this broker is no controller, else it would go round.
        """
        serve = self._server(api_key, write)
        if serve is None:
            return None

        def handle(broker: BrokerState, context: RequestContext, request: Message) -> Message | DelayedOperation | None:
            was_sent_on = (context.client_id or "").startswith("broker-") and (context.client_id or "").endswith(
                _FORWARDING
            )
            if self.active is None and otherwise is not None and not was_sent_on:
                return otherwise(broker, context, request)
            return serve(broker, context, request)

        return handle

    def _server(self, api_key: int, write: WriteEntities) -> Handler | None:
        if self._admin.serves(api_key):
            return lambda broker, context, request: self._admin.handle(self.active, broker, context, request)
        if controller_apis.serves(api_key):
            return lambda broker, context, request: controller_apis.handle(self.active, request, context.api_version)
        if api_key in entity_settings.PLANS:
            return lambda broker, context, request: self._alter_entities(broker, context, request, write)
        return None

    def _alter_entities(
        self, broker: BrokerState, context: RequestContext, request: Message, write: WriteEntities
    ) -> DelayedOperation:
        operation = DelayedOperation()
        if self.active is None:
            operation.complete(refused(request, errors.NotControllerError.code))
            return operation
        edits, answer = entity_settings.PLANS[request.API_KEY](broker, context, request)
        if edits:
            write(edits, lambda problem: operation.complete(answer(problem)))
        else:
            operation.complete(answer(None))
        return operation


def controller_settings(config: BrokerConfig, image: Callable[[], MetadataImage]) -> ControllerSettings:
    """Return the settings by which a broker is controller."""

    def allows_unclean() -> bool:
        configs = image().configs
        for name in (str(config.node_id), ""):
            value = configs.get((ConfigResourceType.BROKER.value, name), {}).get(_UNCLEAN)
            if value is not None:
                return value.strip().lower() == "true"
        return config.get_bool(_UNCLEAN)

    session = config.get_int("zookeeper.session.timeout.ms") / 1000
    return ControllerSettings(
        broker_id=config.node_id,
        listener=config.inter_broker_listener,
        allows_unclean_by_default=allows_unclean,
        deletes_topics=config.get_bool("delete.topic.enable"),
        rebalances=config.get_bool("auto.leader.rebalance.enable"),
        imbalance_percentage=config.get_int("leader.imbalance.per.broker.percentage"),
        imbalance_interval=config.get_int("leader.imbalance.check.interval.seconds"),
        session_timeout=session,
        silence=Silence.of(config.get_int("broker.silence.timeout.ms"), session),
    )
