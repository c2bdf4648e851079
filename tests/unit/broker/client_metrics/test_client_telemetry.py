"""The broker asks clients for their metrics as operators subscribe to them, and shows what they push (KIP-714)."""

from __future__ import annotations

import gzip
import time
from collections.abc import Mapping
from typing import Any

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, MetricsData, NumberDataPoint
from prometheus_client.parser import text_string_to_metric_families

from barnabas.broker.client_metrics.client_metrics_manager import ClientMetricsManager, TelemetryClient
from barnabas.broker.client_metrics.client_metrics_receiver import ClientMetricsReceiver
from barnabas.broker.metrics.broker_metrics import BrokerMetrics
from barnabas.client.telemetry.kafka_metrics_collector import DataPoint
from barnabas.client.telemetry.otlp import encode
from barnabas.protocol.kafka_uuid import ZERO_UUID, to_text
from barnabas.protocol.messages.api_versions_request import ApiVersionsRequest
from barnabas.protocol.messages.get_telemetry_subscriptions_request import GetTelemetrySubscriptionsRequest
from barnabas.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.messages.push_telemetry_request import PushTelemetryRequest
from tests.support.core_broker import CoreBroker, CoreClient

INVALID_REQUEST, INVALID_RECORD, UNSUPPORTED_VERSION = 42, 87, 35
THROTTLED, UNKNOWN_SUBSCRIPTION, TOO_LARGE, UNSUPPORTED_COMPRESSION = 89, 117, 118, 76
PREFIX = "org.apache.kafka.producer."


class World:
    """A broker with a receiver, and one client."""

    def __init__(self, settings: dict[str, Any] | None = None, most_values: int = 1000) -> None:
        self.broker = CoreBroker(settings)
        self.metrics = BrokerMetrics(self.broker.node, lambda: self.broker.instant, lambda: 0.0)
        receiver = ClientMetricsReceiver(lambda: self.broker.now, most_values)
        self.metrics.registry.register(receiver)
        state = self.broker.state
        max_bytes = state.config.get_int("telemetry.max.bytes")
        state.client_metrics = ClientMetricsManager(state.metadata, receiver, state.random, max_bytes)
        self.client = self.broker.connect()

    def subscribe(self, name: str, **settings: str) -> None:
        configs = [
            AlterableConfig(name=key.replace("_", "."), config_operation=0, value=value)
            for key, value in settings.items()
        ]
        resource = AlterConfigsResource(resource_type=16, resource_name=name, configs=configs)
        request = IncrementalAlterConfigsRequest(resources=[resource])
        response = self.client.request(request, 1).responses[0]
        assert response.error_code == 0, response.error_message

    def ask(self, instance_id: bytes = ZERO_UUID, client_id: str = "shop", client: CoreClient | None = None) -> Any:
        request = GetTelemetrySubscriptionsRequest(client_instance_id=instance_id)
        return (client or self.client).request(request, 0, client_id)

    def push(self, subscription: Any, metrics: bytes, client_id: str = "shop", **fields: Any) -> int:
        given = {
            "client_instance_id": subscription.client_instance_id,
            "subscription_id": subscription.subscription_id, "metrics": metrics, **fields,
        }  # fmt: skip
        code: int = self.client.request(PushTelemetryRequest(**given), 0, client_id).error_code
        return code

    def shown(self) -> dict[str, dict[frozenset[tuple[str, str]], float]]:
        """The clients' samples as Prometheus reads them, by name and labels but for the instance id."""
        found: dict[str, dict[frozenset[tuple[str, str]], float]] = {}
        for family in text_string_to_metric_families(self.metrics.text().decode()):
            for sample in family.samples:
                if sample.name.startswith("kafka_client_"):
                    labels = {key: value for key, value in sample.labels.items() if key != "client_instance_id"}
                    found.setdefault(sample.name, {})[frozenset(labels.items())] = sample.value
        return found


def told(labels: Mapping[str, str] | None = None, *, is_delta: bool = False, **values: float) -> bytes:
    """A payload: sums for names that end in `_total`, gauges for the others."""
    points = [
        DataPoint(PREFIX + name.replace("_", "."), (), value, 2, 1 if name.endswith("_total") else None)
        for name, value in values.items()
    ]
    return encode(points, labels or {}, is_delta=is_delta)


SHOP = frozenset({("client_id", "shop")})


@pytest.fixture
def world() -> World:
    return World()


def test_it_is_offered_only_where_somebody_receives_the_metrics(world: World) -> None:
    plain = CoreBroker()

    def offered(client: CoreClient) -> set[int]:
        asked = ApiVersionsRequest(client_software_name="test", client_software_version="1")
        return {api.api_key for api in client.request(asked, 3).api_keys} & {71, 72}

    assert offered(world.client) == {71, 72}
    assert offered(plain.connect()) == set()
    assert plain.connect().request(GetTelemetrySubscriptionsRequest(), 0).error_code == UNSUPPORTED_VERSION
    assert plain.connect().request(PushTelemetryRequest(), 0).error_code == UNSUPPORTED_VERSION


def test_a_client_gets_an_id_and_is_asked_for_nothing_while_nobody_subscribes(world: World) -> None:
    answer = world.ask()

    assert answer.error_code == 0
    assert answer.client_instance_id != ZERO_UUID
    assert (answer.requested_metrics, answer.push_interval_ms) == ([], 300_000)
    assert (answer.telemetry_max_bytes, answer.delta_temporality) == (1048576, False)
    assert answer.accepted_compression_types == [4, 3, 1, 2]


def test_all_subscriptions_that_match_count_and_the_shortest_interval_holds(world: World) -> None:
    world.subscribe("a", metrics="x.,y.", interval_ms="5000", match="client_id=shop.*")
    world.subscribe("b", metrics="z.", interval_ms="1000", match="client_source_address=10\\..*, client_id=shop")
    world.subscribe("c", metrics="no.", interval_ms="100", match="client_id=sho")

    answer = world.ask()

    assert (answer.requested_metrics, answer.push_interval_ms) == (["x.", "y.", "z."], 1000)


def test_a_pattern_takes_time_in_proportion_to_what_the_client_says_of_itself(world: World) -> None:
    # Python's re would try 2 to the power of 10,000 ways.
    world.subscribe("a", metrics="x.", match="client_id=(a|aa|a*)*b")
    began = time.perf_counter()

    answer = world.ask(client_id="a" * 10_000)

    assert answer.requested_metrics == []
    assert time.perf_counter() - began < 2.0


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("client_id", "Illegal client matching pattern: client_id"),
        ("colour=red", "Illegal client matching pattern: colour=red"),
        ("client_id=(", "missing \\)"),
        (r"client_id=(a)\1", "not supported"),
        ("client_id=(?=a)", "not supported"),
    ],
)
def test_patterns_that_cannot_be_matched_are_refused_in_words(world: World, pattern: str, reason: str) -> None:
    with pytest.raises(AssertionError, match=reason):
        world.subscribe("a", metrics="x.", match=pattern)


def test_a_pattern_that_was_stored_and_cannot_be_matched_any_more_matches_no_client(world: World) -> None:
    world.broker.state.metadata.put_configs("client-metrics", "old", {"metrics": "x.", "match": r"client_id=(s)\1"})
    world.subscribe("new", metrics="y.")

    assert world.ask().requested_metrics == ["y."]


def test_one_that_asks_for_all_metrics_covers_the_others(world: World) -> None:
    world.subscribe("a", metrics="x.")
    world.subscribe("b", metrics="*")

    assert world.ask().requested_metrics == ["*"]


def test_what_is_pushed_is_shown_beside_the_broker_s_own_metrics(world: World) -> None:
    world.subscribe("all", metrics="*", interval_ms="1000")
    subscription = world.ask()
    labels = {"group_id": "g", "client_id": "somebody else", "__name__": "x", "1st": "y"}

    code = world.push(subscription, told(labels, record_send_total=5.0, record_size_avg=2.5))

    assert code == 0
    shown = frozenset({("client_id", "shop"), ("group_id", "g"), ("name__", "x"), ("st", "y")})
    assert world.shown() == {
        "kafka_client_producer_record_send_total": {shown: 5.0},
        "kafka_client_producer_record_size_avg": {shown: 2.5},
    }
    assert to_text(subscription.client_instance_id) in world.metrics.text().decode()
    assert b"kafka_server_replicamanager_partitioncount" in world.metrics.text()


def test_a_client_that_tells_deltas_nevertheless_is_added_up(world: World) -> None:
    world.subscribe("all", metrics="*", interval_ms="1000")
    subscription = world.ask()
    for _ in range(3):
        assert world.push(subscription, told(record_send_total=5.0, is_delta=True)) == 0
        world.broker.advance(1)

    assert world.shown()["kafka_client_producer_record_send_total"] == {SHOP: 15.0}


def test_a_push_may_be_compressed(world: World) -> None:
    world.subscribe("all", metrics="*")

    assert world.push(world.ask(), gzip.compress(told(record_send_total=1.0)), compression_type=1) == 0
    assert world.shown()["kafka_client_producer_record_send_total"] == {SHOP: 1.0}


def test_a_new_subscription_is_told_to_a_client_that_pushes_for_the_old_one(world: World) -> None:
    world.subscribe("all", metrics="x.", interval_ms="1000")
    subscription = world.ask()
    world.subscribe("all", metrics="y.")

    assert world.push(subscription, b"") == UNKNOWN_SUBSCRIPTION
    changed = world.ask(subscription.client_instance_id)
    assert (changed.error_code, changed.requested_metrics) == (0, ["y."])
    assert changed.client_instance_id == subscription.client_instance_id
    assert changed.subscription_id != subscription.subscription_id


def test_other_changes_of_the_metadata_change_no_subscription(world: World) -> None:
    world.subscribe("all", metrics="x.", interval_ms="1000")
    subscription = world.ask()
    world.subscribe("others", metrics="y.", match="client_id=other")

    assert world.push(subscription, b"") == 0


def test_pushes_that_come_too_early_are_refused_but_for_the_first_and_the_last(world: World) -> None:
    world.subscribe("all", metrics="*", interval_ms="1000")
    subscription = world.ask()

    assert world.push(subscription, b"") == 0
    assert world.push(subscription, b"") == THROTTLED
    assert world.ask(subscription.client_instance_id).error_code == THROTTLED
    world.broker.advance(1)
    assert world.push(subscription, b"") == 0
    assert world.push(subscription, b"", terminating=True) == 0
    assert world.push(subscription, b"", terminating=True) == INVALID_REQUEST


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"client_instance_id": ZERO_UUID}, INVALID_REQUEST),
        ({"subscription_id": 1}, UNKNOWN_SUBSCRIPTION),
        ({"compression_type": 5}, UNSUPPORTED_COMPRESSION),
        ({"compression_type": -1}, UNSUPPORTED_COMPRESSION),
        ({"metrics": b"\xff\xff"}, INVALID_RECORD),
        ({"metrics": b"no gzip", "compression_type": 1}, INVALID_RECORD),
        ({"metrics": bytes(101)}, TOO_LARGE),
        ({"metrics": gzip.compress(bytes(10_000)), "compression_type": 1}, INVALID_RECORD),
    ],
)
def test_what_makes_no_sense_is_refused_and_shows_nothing(fields: dict[str, Any], code: int) -> None:
    world = World({"telemetry.max.bytes": 100})
    world.subscribe("all", metrics="*")

    assert world.push(world.ask(), **{"metrics": b"", **fields}) == code
    assert world.shown() == {}
    assert not world.client.closed


def test_metrics_of_a_client_that_is_gone_are_forgotten_after_three_intervals(world: World) -> None:
    world.subscribe("all", metrics="*", interval_ms="100000")
    world.push(world.ask(), told(record_send_total=1.0))
    world.broker.advance(299)
    assert world.shown()

    world.broker.advance(1)

    assert not world.shown()


def test_what_clients_make_it_keep_is_bounded(world: World) -> None:
    world = World(most_values=20)
    world.subscribe("all", metrics="*")
    for number in range(20):
        values = {f"m{n}_total": 1.0 for n in range(4)}
        assert world.push(world.ask(client_id=f"c{number}"), told(**values), client_id=f"c{number}") == 0

    clients = {dict(labels)["client_id"] for labels in world.shown()["kafka_client_producer_m0_total"]}
    assert clients == {f"c{number}" for number in range(15, 20)}, "those heard last"


def test_names_that_clients_use_in_two_ways_do_not_break_the_page(world: World) -> None:
    world.subscribe("all", metrics="*")
    world.push(world.ask(client_id="a"), told(x_total=1.0), client_id="a")
    gauge = Metric(name=f"{PREFIX}x.total")
    gauge.gauge.data_points.append(NumberDataPoint(as_int=7))
    data = MetricsData()
    data.resource_metrics.add().scope_metrics.add().metrics.append(gauge)
    world.push(world.ask(client_id="b"), data.SerializeToString(), client_id="b")

    assert world.shown() == {"kafka_client_producer_x_total": {frozenset({("client_id", "a")}): 1.0}}


def test_a_whole_number_counts_like_any_other(world: World) -> None:
    world.subscribe("all", metrics="*")
    gauge = Metric(name=f"{PREFIX}y")
    gauge.gauge.data_points.append(NumberDataPoint(as_int=7))
    data = MetricsData()
    data.resource_metrics.add().scope_metrics.add().metrics.append(gauge)
    world.push(world.ask(), data.SerializeToString())

    assert world.shown() == {"kafka_client_producer_y": {SHOP: 7.0}}


def test_everything_that_a_subscription_can_match_is_known_of_a_client(world: World) -> None:
    for field in TelemetryClient._fields:
        world.subscribe(field, metrics=field, match=f"{field}=.*")

    assert world.ask().requested_metrics == sorted(TelemetryClient._fields)
