"""Makes the internal topics of Kafka Streams applications, in the name of the member whose heartbeat wants them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.piecewise import message_of
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from barnabas.protocol.messages.create_topics_response import CreateTopicsResponse
from barnabas.protocol.messages.request_header import RequestHeader

if TYPE_CHECKING:
    from barnabas.broker.groups.streams.topology import InternalTopic
    from barnabas.broker.piecewise import Pieces, PiecewiseResponses
    from barnabas.broker.purgatory import DelayedOperation, Purgatory
    from barnabas.protocol.message import Message

    #: Serves CreateTopics: here, or by the controller of the cluster.
    Create = Callable[[RequestContext, CreateTopicsRequest], Message | DelayedOperation | None]

_VERSION = 7
_TIMEOUT_MS = 30_000
_DEFAULT = -1
#: So many failures are remembered, the last ones.
_MOST_FAILURES = 1000


class StreamsInternalTopics:
    """Knows which topics are being made, and which could not be: those are left alone for a while."""

    __slots__ = ("_failed", "_in_flight", "_purgatory", "_responses")

    def __init__(self, purgatory: Purgatory, responses: PiecewiseResponses) -> None:
        self._purgatory = purgatory
        self._responses = responses
        self._in_flight: set[str] = set()
        #: Name → until when (monotonic seconds), and why.
        self._failed: dict[str, tuple[float, str]] = {}

    def create(self, context: RequestContext, topics: Iterable[InternalTopic], patience: float, create: Create) -> None:
        """Begin to make topics, but for those that could not be made in the last `patience` seconds."""
        wanted = []
        for topic in topics:
            until, _ = self._failed.get(topic.name, (context.now, ""))
            if topic.name not in self._in_flight and until <= context.now:
                wanted.append(topic)
        if wanted:
            self._in_flight.update(topic.name for topic in wanted)
            self._responses.answer(self._make(context, wanted, patience, create))

    def problems(self, names: Iterable[str], now: float) -> dict[str, str]:
        """Return why topics could not be made, of those that were tried of late."""
        known = {name: self._failed.get(name, (now, "")) for name in names}
        return {name: text for name, (until, text) in known.items() if until > now}

    def _make(self, context: RequestContext, topics: list[InternalTopic], patience: float, create: Create) -> Pieces:
        request = CreateTopicsRequest(topics=[_asked(topic) for topic in topics], timeout_ms=_TIMEOUT_MS)
        header = RequestHeader(ApiKey.CREATE_TOPICS, _VERSION, context.correlation_id, context.client_id)
        own = RequestContext(header, context.connection, context.instant)
        # The heartbeat does not wait for what comes of it: the next one tells.
        problems = dict.fromkeys((topic.name for topic in topics), str(errors.UnknownServerError()))
        try:
            response = yield from message_of(self._purgatory, create(own, request))
            assert isinstance(response, CreateTopicsResponse)
            problems = {
                one.name: one.error_message or str(errors.for_code(one.error_code))
                for one in response.topics
                if one.error_code not in (errors.NONE, errors.TopicExistsError.code)
            }
        finally:
            self._in_flight.difference_update(topic.name for topic in topics)
            for name, text in problems.items():
                self._failed.pop(name, None)
                self._failed[name] = (context.now + patience, text)
            for name in list(self._failed)[:-_MOST_FAILURES]:
                del self._failed[name]
        return response


def _asked(topic: InternalTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor or _DEFAULT,
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.configs],
    )
