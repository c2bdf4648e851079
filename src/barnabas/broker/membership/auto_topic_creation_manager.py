"""Topics that brokers make by themselves, in a cluster: the controller makes them (AutoTopicCreationManager)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from barnabas import errors
from barnabas.broker.faults import run_all
from barnabas.broker.membership.node_to_controller_channel import ControllerRequest
from barnabas.broker.metadata.cluster_metadata import (
    GROUP_METADATA_TOPIC,
    SHARE_GROUP_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
)
from barnabas.protocol.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from barnabas.protocol.messages.create_topics_response import CreateTopicsResponse

if TYPE_CHECKING:
    from barnabas.broker.config import BrokerConfig
    from barnabas.broker.instant import Instant
    from barnabas.broker.membership.node_to_controller_channel import ControllerRequests
    from barnabas.broker.metadata.cluster_metadata import TopicMetadata
    from barnabas.broker.metadata.metadata_image import MetadataImage
    from barnabas.protocol.message import Message

_TIMEOUT_MS = 30_000
_FACTORS = {
    GROUP_METADATA_TOPIC: "offsets.topic.replication.factor",
    TRANSACTION_STATE_TOPIC: "transaction.state.log.replication.factor",
    SHARE_GROUP_STATE_TOPIC: "share.coordinator.state.topic.replication.factor",
}
_MIN_ISRS = {
    TRANSACTION_STATE_TOPIC: "transaction.state.log.min.isr",
    SHARE_GROUP_STATE_TOPIC: "share.coordinator.state.topic.min.isr",
}
#: Kafka's defaults for these settings.
_FACTOR, _MIN_ISR = 3, 2
_THERE = (errors.NONE, errors.TopicExistsError.code)
Tell = Callable[[errors.KafkaError | None], None]


class _Awaited(NamedTuple):
    names: list[str]
    tell: Tell
    give_up_at: float


class TopicCreation:
    """Asks the controller for topics; the requests for them are told when the metadata have them.

    A service of the dispatcher: who waits is told if they do not come.
    """

    def __init__(
        self,
        config: BrokerConfig,
        requests: ControllerRequests,
        image: Callable[[], MetadataImage],
    ) -> None:
        self._config = config
        self._requests = requests
        self._image = image
        self._awaited: list[_Awaited] = []

    def create(self, topics: Iterable[TopicMetadata], tell: Tell) -> None:
        """Have topics made; `tell` gets None when they are known here, or why they are not made."""
        planned = list(topics)
        request = CreateTopicsRequest(topics=[self._asked(topic) for topic in planned], timeout_ms=_TIMEOUT_MS)

        def answered(response: Message, now: Instant) -> None:
            problem = _problem(response)
            if problem is not None:
                tell(problem)
                return
            self._awaited.append(_Awaited([topic.name for topic in planned], tell, now.now + _TIMEOUT_MS / 1000))
            self.published(self._image(), self._image())

        self._requests.submit(ControllerRequest(lambda: request, answered, give_up=lambda: tell(_not_made())))

    def _asked(self, topic: TopicMetadata) -> CreatableTopic:
        setting, config = _FACTORS.get(topic.name), self._config
        factor = config.get_int("default.replication.factor")
        if setting is not None:
            factor = config.of_internal_topic(setting, _FACTOR)
        given = dict(topic.configs)
        if topic.name in _MIN_ISRS:
            given["min.insync.replicas"] = str(config.of_internal_topic(_MIN_ISRS[topic.name], _MIN_ISR))
        configs = [CreatableTopicConfig(name=name, value=value) for name, value in given.items()]
        return CreatableTopic(
            name=topic.name, num_partitions=topic.partitions, replication_factor=factor, configs=configs
        )

    def published(self, old: MetadataImage, new: MetadataImage) -> None:
        """Tell those whose topics the metadata have by now."""
        self._tell([one for one in self._awaited if all(name in new.topic_ids for name in one.names)], None)

    def next_deadline(self) -> float:
        """When who waits for topics has waited for too long."""
        return min((one.give_up_at for one in self._awaited), default=inf)

    def tick(self, instant: Instant) -> None:
        """Tell those that their topics did not come."""
        self._tell([one for one in self._awaited if one.give_up_at <= instant.now], _not_made())

    def _tell(self, found: list[_Awaited], problem: errors.KafkaError | None) -> None:
        told = [partial(one.tell, problem) for one in found]
        self._awaited = [one for one in self._awaited if one not in found]
        run_all(told)


def _not_made() -> errors.KafkaError:
    return errors.KafkaTimeoutError("the topic has not come into being in time")


def _problem(response: Message) -> errors.KafkaError | None:
    assert isinstance(response, CreateTopicsResponse)
    for topic in response.topics:
        if topic.error_code not in _THERE:
            return errors.for_code(topic.error_code, topic.error_message)
    return None
