"""What is counted of groups and transactions. Where none was ever used, their coordinators are not loaded for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

if TYPE_CHECKING:
    from barnabas.broker.groups.group_coordinator import GroupCoordinator
    from barnabas.broker.transactions.transaction_coordinator import TransactionCoordinator

_GROUPS = "kafka_coordinator_group_groupmetadatamanager_numgroups"
#: The states of Kafka's GroupMetadataManager, of groups of the classic protocol.
CLASSIC_STATES = ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty")
CONSUMER_STATES = ("Empty", "Assigning", "Reconciling", "Stable", "Dead")
SHARE_STATES = ("Empty", "Stable", "Dead")
STREAMS_STATES = ("Empty", "NotReady", "Assigning", "Reconciling", "Stable", "Dead")
_COORDINATOR = "kafka_server_group_coordinator_metrics"
_OFFSETS = "kafka_coordinator_group_groupmetadatamanager_numoffsets"
#: What `GroupCounts` counts.
_HAPPENED = {
    "offset_commit": "Offsets that were committed, but for those in transactions",
    "offset_deletion": "Offsets that were deleted on request",
    "offset_expiration": "Offsets that were kept for as long as they are to be",
    "group_completed_rebalance": "Rebalances of groups of the classic protocol that were completed",
    "consumer_group_rebalance": "Group epochs that groups of the consumer protocol have begun",
}


class CoordinatorMetrics:
    """The numbers of both coordinators; the functions give them if they are loaded."""

    def __init__(
        self,
        groups: Callable[[], GroupCoordinator | None],
        transactions: Callable[[], TransactionCoordinator | None],
    ):
        self._groups = groups
        self._transactions = transactions

    def collect(self, now_ms: int) -> Iterator[Metric]:
        """Return the numbers as they are now."""
        yield from self._of_groups()
        yield from self._of_transactions(now_ms)

    def _of_groups(self) -> Iterator[Metric]:
        groups = self._groups()
        counts = groups.count_groups() if groups is not None else {}
        yield GaugeMetricFamily(_GROUPS, "Groups", sum(counts.values()))
        for state in CLASSIC_STATES:
            yield GaugeMetricFamily(
                f"{_GROUPS}{state.lower()}",
                f"Groups of the classic protocol: {state}",
                counts.get(("classic", state), 0),
            )
        protocols = GaugeMetricFamily(f"{_COORDINATOR}_group_count", "Groups by protocol", labels=("protocol",))
        for protocol in ("classic", "consumer", "share", "streams"):
            protocols.add_metric((protocol,), sum(count for (kind, _), count in counts.items() if kind == protocol))
        yield protocols
        for kind, names, what in (
            ("consumer", CONSUMER_STATES, "Groups of the consumer protocol"),
            ("share", SHARE_STATES, "Share groups"),
            ("streams", STREAMS_STATES, "Streams groups"),
        ):
            states = GaugeMetricFamily(f"{_COORDINATOR}_{kind}_group_count", what, labels=("state",))
            for state in names:
                states.add_metric((state,), counts.get((kind, state), 0))
            yield states
        yield GaugeMetricFamily(
            _OFFSETS, "Offsets that groups have committed", groups.committed_offsets if groups else 0
        )
        for name, what in _HAPPENED.items():
            happened = 0 if groups is None else getattr(groups.counts, name)
            yield CounterMetricFamily(f"{_COORDINATOR}_{name}_count", what, happened)
        rebalances = 0 if groups is None else groups.share_rebalances
        what = "Group epochs that share groups have begun"
        yield CounterMetricFamily(f"{_COORDINATOR}_share_group_rebalance_count", what, rebalances)
        rebalances = 0 if groups is None else groups.streams.rebalances
        what = "Group epochs that members of streams groups have begun"
        yield CounterMetricFamily(f"{_COORDINATOR}_streams_group_rebalance_count", what, rebalances)

    def _of_transactions(self, now_ms: int) -> Iterator[Metric]:
        from barnabas.broker.transactions.transaction_state import NAMES, ONGOING

        coordinator = self._transactions()
        known = coordinator.all() if coordinator is not None and not coordinator.loading else []
        by_state = GaugeMetricFamily("barnabas_transactions", "Transactional ids by state", labels=("state",))
        for state, name in NAMES.items():
            by_state.add_metric((name,), sum(metadata.state == state for metadata in known))
        yield by_state
        oldest = min((metadata.start_ms for metadata in known if metadata.state == ONGOING), default=None)
        age = 0.0 if oldest is None else max(0.0, (now_ms - oldest) / 1000)
        yield GaugeMetricFamily(
            "barnabas_oldest_open_transaction_seconds", "How long the oldest open transaction has been open", age
        )
