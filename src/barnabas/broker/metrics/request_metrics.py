"""What is counted of requests: how many, how long each phase took, which errors, and what became of records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, Metric, SummaryMetricFamily

from barnabas import errors
from barnabas.broker.handlers.plain_produce import topic_of
from barnabas.broker.metrics.error_codes import error_codes
from barnabas.broker.metrics.percentiles import Percentiles
from barnabas.protocol.messages.fetch_response import FetchResponse
from barnabas.protocol.messages.produce_request import ProduceRequest
from barnabas.protocol.messages.produce_response import ProduceResponse

if TYPE_CHECKING:
    from barnabas.broker.request import Request, ServedApi
    from barnabas.broker.request_dispatcher import RequestDispatcher
    from barnabas.protocol.message import Message

#: Phase → what it is of a request's time (Kafka's RequestMetrics).
PHASES = {
    "totaltimems": "from the arrival of requests to their responses",
    "requestqueuetimems": "that requests waited for others that came before",
    "localtimems": "in the handlers of requests",
    "remotetimems": "that requests waited, for data or for other members",
    "throttletimems": "that clients were told to wait",
    "responsesendtimems": "from making responses to giving them to the socket",
}
#: What a client did wrong, or finds by itself, is no failure of the broker (as in Kafka's ReplicaManager). A disk that
#: fails is one here, for it is what an operator has to see.
_EXPECTED = frozenset(
    kind.code
    for kind in (
        errors.UnknownTopicOrPartitionError,
        errors.NotLeaderOrFollowerError,
        errors.RecordTooLargeError,
        errors.RecordBatchTooLargeError,
        errors.CorruptRecordError,
        errors.OffsetOutOfRangeError,
        errors.FencedLeaderEpochError,
        errors.UnknownLeaderEpochError,
        errors.UnknownTopicIdError,
    )
)


#: A shortcut answers in the turn in which a request came, and no quota is set then.
_NOT_IN_SHORTCUTS = ("requestqueuetimems", "remotetimems", "throttletimems", "responsesendtimems")


_TOO_LARGE = (errors.RecordTooLargeError.code, errors.RecordBatchTooLargeError.code)
_ID_SIZE = 16


class _Api:
    """Of one API: its times by phase and its responses by error; `at_once`: of shortcuts, not in all phases yet."""

    __slots__ = ("at_once", "errors", "throttled", "times")

    def __init__(self) -> None:
        self.times = {phase: Percentiles() for phase in PHASES}
        self.errors: dict[int, int] = {}
        self.throttled = 0
        self.at_once = 0

    def count_shortcuts(self, now: float) -> None:
        """Count what shortcuts answered in the phases that they leave out."""
        count, self.at_once = self.at_once, 0
        if count:
            for phase in _NOT_IN_SHORTCUTS:
                self.times[phase].record_zeros(count, now)
            self.errors[errors.NONE] = self.errors.get(errors.NONE, 0) + count


class RequestMetrics:
    """An observer of requests. Nothing is taken while there is none: then the dispatcher does not look for one."""

    def __init__(self, core: RequestDispatcher):
        self._core = core
        self._apis: dict[str, _Api] = {}
        #: Topic → partitions asked for, and those of them that failed, in Produce and in Fetch requests.
        self._partitions: dict[str, dict[str, list[int]]] = {"Produce": {}, "Fetch": {}}
        #: The topic as it lies in a response of the Produce shortcut → how many there were.
        self._at_once: dict[bytes, int] = {}
        self._bytes_rejected: dict[str, int] = {}

    def completed(self, request: Request, response: Message | None, now: float) -> None:
        """Count a request that was answered at `now`."""
        context = request.context
        name = request.api.name
        api = self._api(name)
        waited = max(0.0, now - context.instant.now)
        times = api.times
        times["totaltimems"].record(context.queue_seconds + context.handler_seconds + waited, now)
        times["requestqueuetimems"].record(context.queue_seconds, now)
        times["localtimems"].record(context.handler_seconds, now)
        times["remotetimems"].record(waited, now)
        times["throttletimems"].record(context.throttle, now)
        api.throttled += context.throttle > 0
        for code in error_codes(response) if response is not None else ():
            api.errors[code] = api.errors.get(code, 0) + 1
        if isinstance(response, (ProduceResponse, FetchResponse)):
            self._count_partitions(self._partitions[name], response)
            if isinstance(response, ProduceResponse):
                assert isinstance(request.message, ProduceRequest)
                self._count_rejected(request.message, response)

    def sent(self, request: Request, seconds: float, now: float) -> None:
        """Count how long a response waited for the socket."""
        self._api(request.api.name).times["responsesendtimems"].record(seconds, now)

    def answered_at_once(self, api: ServedApi, answer: bytes, seconds: float, now: float) -> None:
        """Count a Produce that the shortcut answered."""
        found = self._api(api.name)
        found.at_once += 1
        found.times["totaltimems"].record(seconds, now)
        found.times["localtimems"].record(seconds, now)
        topic = topic_of(answer)
        self._at_once[topic] = self._at_once.get(topic, 0) + 1

    def _api(self, name: str) -> _Api:
        api = self._apis.get(name)
        if api is None:
            api = self._apis[name] = _Api()
        return api

    def _count_pending(self, now: float) -> None:
        for api in self._apis.values():
            api.count_shortcuts(now)
        at_once, self._at_once = self._at_once, {}
        for topic, count in at_once.items():
            by_id = self._core.state.metadata.topic_by_id(topic) if len(topic) == _ID_SIZE else None
            # A name of fifteen bytes is as long as an id; ids are random, so no topic has one that is such a name.
            name = by_id.name if by_id is not None else str(topic[1:], "utf-8", "replace")
            self._partitions["Produce"].setdefault(name, [0, 0])[0] += count

    def _count_rejected(self, request: ProduceRequest, response: ProduceResponse) -> None:
        for topic, answered in zip(request.topic_data, response.responses, strict=True):
            for data, result in zip(topic.partition_data, answered.partition_responses, strict=True):
                if result.error_code in _TOO_LARGE:
                    name = topic.name or self._name_of(topic.topic_id)
                    self._bytes_rejected[name] = self._bytes_rejected.get(name, 0) + len(data.records or b"")

    def _count_partitions(self, counts: dict[str, list[int]], response: ProduceResponse | FetchResponse) -> None:
        for topic in response.responses:
            name = getattr(topic, "name", "") or getattr(topic, "topic", "") or self._name_of(topic.topic_id)
            found = counts.setdefault(name, [0, 0])
            partitions = topic.partition_responses if hasattr(topic, "partition_responses") else topic.partitions
            for partition in partitions:
                found[0] += 1
                found[1] += partition.error_code != errors.NONE and partition.error_code not in _EXPECTED

    def _name_of(self, topic_id: bytes) -> str:
        topic = self._core.state.metadata.topic_by_id(topic_id)
        return "" if topic is None else topic.name

    def collect(self, now: float) -> Iterator[Metric]:
        """Return the numbers as they are now."""
        self._count_pending(now)
        requests = CounterMetricFamily(
            "kafka_network_requestmetrics_requests", "Requests received", labels=("request", "version")
        )
        for (_, version), served in sorted(self._core.apis.items()):
            requests.add_metric((served.name, str(version)), served.requests)
        yield requests
        yield from self._times(now)
        yield self._errors()
        throttled = CounterMetricFamily(
            "barnabas_throttled_requests", "Requests whose client was told to wait", labels=("request",)
        )
        for name, api in sorted(self._apis.items()):
            throttled.add_metric((name,), api.throttled)
        yield throttled
        yield from self._produce_and_fetch()

    def _times(self, now: float) -> Iterator[Metric]:
        for phase, what in PHASES.items():
            name = f"kafka_network_requestmetrics_{phase}"
            summary = SummaryMetricFamily(name, f"Milliseconds {what}", labels=("request",))
            for api_name, api in sorted(self._apis.items()):
                times = api.times[phase]
                summary.add_metric((api_name,), times.count, times.total * 1000)
                add_quantiles(summary, {"request": api_name}, times, now)
            yield summary

    def _errors(self) -> Metric:
        family = CounterMetricFamily(
            "kafka_network_requestmetrics_errors", "Error codes in responses", labels=("request", "error")
        )
        for name, api in sorted(self._apis.items()):
            for code, count in sorted(api.errors.items()):
                family.add_metric((name, errors.name_of(code)), count)
        return family

    def _produce_and_fetch(self) -> Iterator[Metric]:
        for api_name, counts in self._partitions.items():
            api = api_name.lower()
            total = CounterMetricFamily(
                f"kafka_server_brokertopicmetrics_total{api}requests",
                f"Partitions answered in {api_name} responses",
                labels=("topic",),
            )
            failed = CounterMetricFamily(
                f"kafka_server_brokertopicmetrics_failed{api}requests",
                "Those of them that failed, other than by what the client can know",
                labels=("topic",),
            )
            for topic, (asked, failures) in sorted(counts.items()):
                total.add_metric((topic,), asked)
                failed.add_metric((topic,), failures)
            yield from (total, failed)
        rejected = CounterMetricFamily(
            "kafka_server_brokertopicmetrics_bytesrejected",
            "Bytes of batches that were refused for their size",
            labels=("topic",),
        )
        for topic, size in sorted(self._bytes_rejected.items()):
            rejected.add_metric((topic,), size)
        yield rejected


def add_quantiles(family: Metric, labels: dict[str, str], times: Percentiles, now: float) -> None:
    """Add the quantiles of times, in milliseconds, under the name of a summary."""
    for quantile, seconds in times.quantiles(now):
        family.add_sample(family.name, {**labels, "quantile": str(quantile)}, seconds * 1000)
