"""What a controller under ZooKeeper counts, under the names of Kafka 3.9's beans.

`kafka.controller:type=ControllerEventManager`, `ControllerStats` and `ControllerChannelManager`; the numbers of
`type=KafkaController` are in `barnabas.broker.zookeeper.controller_numbers`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily

from barnabas.broker.metrics.request_metrics import add_quantiles
from barnabas.broker.zookeeper.controller.controller_stats import TIMER_NAMES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.core import Metric

    from barnabas.broker.metrics.percentiles import Percentiles
    from barnabas.broker.zookeeper.controller.controller_stats import ControllerStats

_PREFIX = "kafka_controller_"


def controller_families(stats: ControllerStats) -> Iterator[Metric]:
    """Return the families; those of a broker that was never controller are empty."""
    queue, waited = f"{_PREFIX}controllereventmanager_eventqueue", {"": stats.queue_times}
    yield GaugeMetricFamily(f"{queue}size", "Events of the controller that wait", stats.queue_size)
    yield _summary(f"{queue}timems", "Milliseconds that events of the controller waited", waited, stats)
    for state, name in TIMER_NAMES.items():
        what = f"Milliseconds that events of the controller took: {state.name.lower().replace('_', ' ')}"
        yield _summary(f"{_PREFIX}controllerstats_{name.lower()}", what, {"": stats.times[state]}, stats)
    yield CounterMetricFamily(
        f"{_PREFIX}controllerstats_uncleanleaderelections",
        "Leaders that were not in sync, by this controller",
        stats.unclean_elections,
    )
    channels, waiting = f"{_PREFIX}controllerchannelmanager_", stats.request_queues()
    yield GaugeMetricFamily(f"{channels}totalqueuesize", "Requests to brokers that wait", sum(waiting.values()))
    sizes = GaugeMetricFamily(f"{channels}queuesize", "Requests to a broker that wait", labels=("broker_id",))
    for number in sorted(waiting):
        sizes.add_metric((str(number),), waiting[number])
    yield sizes
    times = {str(number): stats.request_times[number] for number in sorted(stats.request_times)}
    what = "Milliseconds that requests to a broker waited"
    yield _summary(f"{channels}requestrateandqueuetimems", what, times, stats)


def _summary(name: str, what: str, times: dict[str, Percentiles], stats: ControllerStats) -> Metric:
    """Return times in milliseconds, by broker; "" for what is of no broker."""
    labels = () if "" in times else ("broker_id",)
    family = SummaryMetricFamily(name, what, labels=labels)
    for broker, found in times.items():
        values = (broker,) if labels else ()
        family.add_metric(values, found.count, found.total * 1000)
        add_quantiles(family, dict(zip(labels, values, strict=True)), found, stats.now())
    return family
