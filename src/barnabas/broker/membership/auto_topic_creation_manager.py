"""Topics that brokers make by themselves, in a cluster: the controller makes them (AutoTopicCreationManager)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.membership.node_to_controller_channel import ControllerRequest
from barnabas.broker.metadata.cluster_metadata import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
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
}
#: Kafka's defaults for these settings.
_FACTOR, _MIN_ISR = 3, 2
_THERE = (errors.NONE, errors.TopicExistsError.code)
Tell = Callable[[errors.KafkaError | None], None]


class TopicCreation:
    """Asks the controller for topics; the requests for them are told when the metadata have them."""

    def __init__(self, config: BrokerConfig, requests: ControllerRequests, image: Callable[[], MetadataImage]) -> None:
        self._config = config
        self._requests = requests
        self._image = image
        self._awaited: list[tuple[list[str], Tell]] = []

    def create(self, topics: Iterable[TopicMetadata], tell: Tell) -> None:
        """Have topics made; `tell` gets None when they are known here, or why they are not made."""
        planned = list(topics)
        request = CreateTopicsRequest(topics=[self._asked(topic) for topic in planned], timeout_ms=_TIMEOUT_MS)

        def answered(response: Message, now: Instant) -> None:
            problem = _problem(response)
            if problem is not None:
                tell(problem)
                return
            self._awaited.append(([topic.name for topic in planned], tell))
            self.published(self._image(), self._image())

        self._requests.submit(ControllerRequest(lambda: request, answered))

    def _asked(self, topic: TopicMetadata) -> CreatableTopic:
        setting, config = _FACTORS.get(topic.name), self._config
        factor = config.get_int("default.replication.factor")
        if setting is not None:
            factor = config.of_internal_topic(setting, _FACTOR)
        given = dict(topic.configs)
        if topic.name == TRANSACTION_STATE_TOPIC:
            given["min.insync.replicas"] = str(config.of_internal_topic("transaction.state.log.min.isr", _MIN_ISR))
        configs = [CreatableTopicConfig(name=name, value=value) for name, value in given.items()]
        return CreatableTopic(
            name=topic.name, num_partitions=topic.partitions, replication_factor=factor, configs=configs
        )

    def published(self, old: MetadataImage, new: MetadataImage) -> None:
        """Tell those whose topics the metadata have by now."""
        found = [one for one in self._awaited if all(name in new.topic_ids for name in one[0])]
        for one in found:
            self._awaited.remove(one)
            one[1](None)


def _problem(response: Message) -> errors.KafkaError | None:
    assert isinstance(response, CreateTopicsResponse)
    for topic in response.topics:
        if topic.error_code not in _THERE:
            return errors.for_code(topic.error_code, topic.error_message)
    return None
