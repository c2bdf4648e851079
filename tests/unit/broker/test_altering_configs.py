"""IncrementalAlterConfigs, AlterConfigs, DescribeConfigs, ListConfigResources; the answers are Apache Kafka 4.3's."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas import errors
from barnabas.protocol.kinds import ConfigResourceType as Kind
from barnabas.protocol.kinds import UpgradeType
from barnabas.protocol.messages import alter_configs_request as legacy
from barnabas.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from barnabas.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.messages.list_config_resources_request import ListConfigResourcesRequest
from barnabas.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from tests.support.core_broker import CoreBroker, CoreClient, batch, create, fetch, produce

SET, DELETE, APPEND, SUBTRACT = range(4)
INVALID_CONFIG = errors.InvalidConfigurationError.code
INVALID_REQUEST = errors.InvalidRequestError.code

Op = tuple[str, int, str | None]


def alter(client: CoreClient, kind: int, name: str, *ops: Op, validate_only: bool = False) -> Any:
    configs = [AlterableConfig(name=n, config_operation=o, value=v) for n, o, v in ops]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    return client.request(request, 1).responses[0]


def replace(client: CoreClient, kind: int, name: str, validate_only: bool = False, **configs: str | None) -> Any:
    given = [legacy.AlterableConfig(name=n.replace("_", "."), value=v) for n, v in configs.items()]
    resource = legacy.AlterConfigsResource(resource_type=kind, resource_name=name, configs=given)
    return client.request(legacy.AlterConfigsRequest(resources=[resource], validate_only=validate_only), 2).responses[0]


def describe(client: CoreClient, kind: int, name: str, *keys: str, documentation: bool = False) -> dict[str, Any]:
    asked = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=list(keys) or None)
    request = DescribeConfigsRequest(resources=[asked], include_synonyms=True, include_documentation=documentation)
    return {config.name: config for config in client.request(request, 4).results[0].configs}


def downgrade(client: CoreClient, feature: str) -> None:
    """Take a feature out of use."""
    key = FeatureUpdateKey(feature=feature, max_version_level=0, upgrade_type=UpgradeType.SAFE_DOWNGRADE)
    assert client.request(UpdateFeaturesRequest(feature_updates=[key]), 1).error_code == 0


def shown(config: Any) -> tuple[Any, ...]:
    return config.value, config.config_source, [(s.name, s.value, s.source) for s in config.synonyms]


@pytest.fixture
def topic(client: CoreClient) -> CoreClient:
    client.request(create("t", retention_ms="5000"), 7)
    return client


class TestTopics:
    def test_set_and_delete(self, topic: CoreClient) -> None:
        assert (
            alter(topic, Kind.TOPIC, "t", ("segment.ms", SET, "9000"), ("retention.ms", DELETE, None)).error_code == 0
        )
        found = describe(topic, Kind.TOPIC, "t", "segment.ms", "retention.ms")
        assert shown(found["segment.ms"]) == ("9000", 1, [("segment.ms", "9000", 1)])
        assert shown(found["retention.ms"]) == ("604800000", 5, [])

    def test_append_and_subtract_keep_a_list_without_repetitions(self, topic: CoreClient) -> None:
        def policy_after(operation: int, value: str) -> str:
            assert alter(topic, Kind.TOPIC, "t", ("cleanup.policy", operation, value)).error_code == 0
            found: str = describe(topic, Kind.TOPIC, "t")["cleanup.policy"].value
            return found

        assert policy_after(APPEND, "compact") == "delete,compact"
        assert policy_after(APPEND, "compact") == "delete,compact"
        assert policy_after(SUBTRACT, "delete") == "compact"
        assert policy_after(SUBTRACT, "compact") == ""

    @pytest.mark.parametrize(
        ("ops", "code"),
        [
            ([("nope", SET, "x")], INVALID_CONFIG),
            ([("retention.ms", SET, "soon")], INVALID_CONFIG),
            ([("retention.ms", APPEND, "1")], INVALID_CONFIG),
            ([("cleanup.policy", APPEND, "burn")], INVALID_CONFIG),
            ([("segment.bytes", SET, "20")], INVALID_CONFIG),
            ([("min.compaction.lag.ms", SET, "10"), ("max.compaction.lag.ms", SET, "9")], INVALID_CONFIG),
            ([("remote.storage.enable", SET, "true")], INVALID_CONFIG),
            ([("retention.ms", SET, None)], INVALID_REQUEST),
            ([("retention.ms", 9, "1")], INVALID_REQUEST),
            ([("retention.ms", SET, "1"), ("retention.ms", SET, "2")], INVALID_REQUEST),
        ],
    )
    def test_what_makes_no_sense_changes_nothing(self, topic: CoreClient, ops: list[Op], code: int) -> None:
        response = alter(topic, Kind.TOPIC, "t", ("flush.ms", SET, "77"), *ops)
        assert response.error_code == code
        assert response.error_message
        assert topic.broker.state.metadata.topic("t").configs == {"retention.ms": "5000"}

    def test_deleting_what_is_not_set_or_not_known_is_no_error(self, topic: CoreClient) -> None:
        assert alter(topic, Kind.TOPIC, "t", ("flush.ms", DELETE, None), ("nope", DELETE, None)).error_code == 0

    @pytest.mark.parametrize(
        ("name", "error"),
        [
            ("none", errors.UnknownTopicOrPartitionError),
            ("", errors.InvalidRequestError),
            ("a b", errors.InvalidTopicError),
        ],
    )
    def test_topics_that_are_not_there(self, topic: CoreClient, name: str, error: Any) -> None:
        assert alter(topic, Kind.TOPIC, name, ("retention.ms", SET, "1")).error_code == error.code

    def test_validate_only_changes_nothing(self, topic: CoreClient) -> None:
        ops = ("retention.ms", SET, "123")
        assert alter(topic, Kind.TOPIC, "t", ops, validate_only=True).error_code == 0
        assert replace(topic, Kind.TOPIC, "t", validate_only=True).error_code == 0
        assert topic.broker.state.metadata.topic("t").configs == {"retention.ms": "5000"}

    def test_a_resource_given_twice_is_refused_both_times(self, topic: CoreClient) -> None:
        twice = [AlterConfigsResource(resource_type=Kind.TOPIC, resource_name="t") for _ in range(2)]
        found = topic.request(IncrementalAlterConfigsRequest(resources=twice), 1).responses
        assert [response.error_code for response in found] == [INVALID_REQUEST] * 2

    def test_a_running_log_follows(self, topic: CoreClient) -> None:
        assert topic.request(produce("t", batch(bytes(2000))), 12).responses[0].partition_responses[0].error_code == 0
        alter(topic, Kind.TOPIC, "t", ("max.message.bytes", SET, "1000"))
        answer = topic.request(produce("t", batch(bytes(2000))), 12).responses[0].partition_responses[0]
        assert answer.error_code == errors.RecordTooLargeError.code

    def test_settings_last_over_a_crash(self, topic: CoreClient) -> None:
        alter(topic, Kind.TOPIC, "t", ("max.message.bytes", SET, "1000"))
        after = topic.broker.crashed().connect()
        assert describe(after, Kind.TOPIC, "t")["max.message.bytes"].value == "1000"


class TestReplacing:
    def test_what_is_not_named_goes_back_to_its_default(self, topic: CoreClient) -> None:
        assert replace(topic, Kind.TOPIC, "t", cleanup_policy="compact").error_code == 0
        assert topic.broker.state.metadata.topic("t").configs == {"cleanup.policy": "compact"}

    def test_errors(self, topic: CoreClient) -> None:
        assert replace(topic, Kind.TOPIC, "t", retention_ms=None).error_code == INVALID_REQUEST
        assert replace(topic, Kind.TOPIC, "none").error_code == errors.UnknownTopicOrPartitionError.code
        assert replace(topic, Kind.BROKER_LOGGER, "1", root="INFO").error_code == INVALID_REQUEST
        assert replace(topic, 99, "1").error_code == INVALID_REQUEST


class TestBrokers:
    def test_a_value_for_this_broker_goes_before_one_for_all_before_the_file_before_the_default(self) -> None:
        client = CoreBroker({"log.retention.bytes": "1000"}).connect()
        alter(client, Kind.BROKER, "", ("log.retention.bytes", SET, "2000"), ("log.retention.ms", SET, "3000"))
        alter(client, Kind.BROKER, "1", ("log.retention.bytes", SET, "4000"))
        found = describe(client, Kind.BROKER, "1")
        assert shown(found["log.retention.bytes"]) == (
            "4000", 2,
            [("log.retention.bytes", v, source) for v, source in (("4000", 2), ("2000", 3), ("1000", 4), ("-1", 5))],
        )  # fmt: skip
        # Hours stand for milliseconds that are not set.
        assert shown(found["log.retention.ms"]) == (
            "3000", 3, [("log.retention.ms", "3000", 3), ("log.retention.hours", "168", 5)]
        )  # fmt: skip
        of_all = set(describe(client, Kind.BROKER, ""))
        assert of_all == {"log.retention.bytes", "log.retention.ms", "min.insync.replicas"}

    @pytest.mark.parametrize(("given", "other"), [("node.id", "broker.id"), ("broker.id", "node.id")])
    def test_the_two_names_of_the_id_are_given_together(self, given: str, other: str) -> None:
        client = CoreBroker({given: "7"}).connect()
        found = describe(client, Kind.BROKER, "7")
        for name in (given, other):
            static, default = found[name].synonyms
            assert (found[name].value, found[name].config_source) == ("7", 4)
            assert (static.name, static.value, static.source) == (name, "7", 4)
            assert default.source == 5

    def test_the_cluster_has_a_min_insync_replicas_while_it_knows_eligible_leader_replicas(self) -> None:
        client = CoreBroker({"min.insync.replicas": "2"}).connect()
        client.request(create("t"), 7)
        at_cluster = ("2", 3, [("min.insync.replicas", "2", 3), ("min.insync.replicas", "2", 4)])

        assert shown(describe(client, Kind.BROKER, "")["min.insync.replicas"])[:2] == ("2", 3)
        for kind, name in ((Kind.BROKER, "1"), (Kind.TOPIC, "t")):
            value, source, synonyms = shown(describe(client, kind, name)["min.insync.replicas"])
            assert (value, source, synonyms[:2]) == at_cluster

        downgrade(client, "eligible.leader.replicas.version")
        assert describe(client, Kind.BROKER, "") == {}
        assert shown(describe(client, Kind.TOPIC, "t")["min.insync.replicas"])[:2] == ("2", 4)

    def test_eligible_leader_replicas_leave_min_insync_replicas_to_the_cluster(self, client: CoreClient) -> None:
        own = alter(client, Kind.BROKER, "1", ("min.insync.replicas", SET, "1"))
        removed = alter(client, Kind.BROKER, "", ("min.insync.replicas", DELETE, None))
        changed = alter(client, Kind.BROKER, "", ("min.insync.replicas", SET, "2"))

        assert (own.error_code, removed.error_code) == (errors.InvalidConfigurationError.code,) * 2
        assert "cannot be altered while ELR is enabled" in own.error_message
        assert "cannot be removed while ELR is enabled" in removed.error_message
        assert changed.error_code == 0
        assert shown(describe(client, Kind.BROKER, "")["min.insync.replicas"])[:2] == ("2", 3)

    def test_topics_that_set_nothing_themselves_follow(self, topic: CoreClient) -> None:
        alter(topic, Kind.BROKER, "", ("message.max.bytes", SET, "1000"))
        assert shown(describe(topic, Kind.TOPIC, "t")["max.message.bytes"])[:2] == ("1000", 3)
        answer = topic.request(produce("t", batch(bytes(2000))), 12).responses[0].partition_responses[0]
        assert answer.error_code == errors.RecordTooLargeError.code
        alter(topic, Kind.BROKER, "", ("message.max.bytes", DELETE, None))
        assert topic.request(produce("t", batch(bytes(2000))), 12).responses[0].partition_responses[0].error_code == 0

    def test_they_last_over_a_crash(self, client: CoreClient) -> None:
        alter(client, Kind.BROKER, "1", ("message.max.bytes", SET, "1000"))
        after = client.broker.crashed().connect()
        after.request(create("t"), 7)
        answer = after.request(produce("t", batch(bytes(2000))), 12).responses[0].partition_responses[0]
        assert answer.error_code == errors.RecordTooLargeError.code

    @pytest.mark.parametrize(
        ("name", "op"),
        [
            ("1", ("num.partitions", SET, "3")),
            ("", ("log.roll.hours", SET, "100")),
            ("", ("listeners", SET, "PLAINTEXT://:1")),
            ("1", ("listeners", SET, "PLAINTEXT://:1")),
            ("1", ("log.retention.ms", SET, "bad")),
            ("1", ("num.io.threads", SET, "100")),
            ("1", ("ssl.client.auth", SET, "maybe")),
            ("7", ("log.retention.ms", SET, "1")),
            ("x", ("log.retention.ms", SET, "1")),
        ],
    )
    def test_what_cannot_change_while_it_runs(self, client: CoreClient, name: str, op: Op) -> None:
        response = alter(client, Kind.BROKER, name, op)
        assert response.error_code == INVALID_REQUEST
        assert response.error_message

    def test_read_only_is_what_kafka_says_is(self, client: CoreClient) -> None:
        found = describe(client, Kind.BROKER, "1")
        # Counted in the answer of Apache Kafka 4.3.1.
        assert (len(found), sum(not config.read_only for config in found.values())) == (340, 99)
        assert found["num.partitions"].read_only
        assert not found["log.cleanup.policy"].read_only

    def test_secrets_are_never_shown(self, client: CoreClient) -> None:
        secret = describe(client, Kind.BROKER, "1")["ssl.key.password"]
        assert (secret.is_sensitive, secret.value, secret.config_type) == (True, None, 9)

    def test_unknown_settings_are_kept_for_plugins_and_not_shown(self, client: CoreClient) -> None:
        assert alter(client, Kind.BROKER, "", ("my.plugin.key", SET, "secret")).error_code == 0
        config = describe(client, Kind.BROKER, "")["my.plugin.key"]
        assert (config.value, config.is_sensitive, config.read_only) == (None, True, True)

    def test_rates_of_replication_are_shown_although_no_file_has_them(self, client: CoreClient) -> None:
        for kind, for_all in (("leader", "700"), ("follower", "800")):
            name = f"{kind}.replication.throttled.rate"
            assert alter(client, Kind.BROKER, "", (name, SET, for_all)).error_code == 0
        name = "leader.replication.throttled.rate"
        assert alter(client, Kind.BROKER, "1", (name, SET, "500")).error_code == 0
        found = describe(client, Kind.BROKER, "1")
        assert shown(found[name]) == ("500", 2, [(name, "500", 2), (name, "700", 3)])
        assert (found[name].config_type, found[name].is_sensitive, found[name].read_only) == (5, False, True)
        assert shown(found["follower.replication.throttled.rate"])[:2] == ("800", 3)
        assert shown(describe(client, Kind.BROKER, "")[name]) == ("700", 3, [(name, "700", 3)])
        assert alter(client, Kind.BROKER, "1", (name, DELETE, None)).error_code == 0
        assert shown(describe(client, Kind.BROKER, "1")[name])[:2] == ("700", 3)

    def test_a_rate_of_replication_is_a_number(self, client: CoreClient) -> None:
        for text in ("fast", "-1"):
            response = alter(client, Kind.BROKER, "1", ("leader.replication.throttled.rate", SET, text))
            assert response.error_code == INVALID_REQUEST
            assert "leader.replication.throttled.rate" in response.error_message

    def test_documentation_only_when_asked_for(self, client: CoreClient) -> None:
        plain = describe(client, Kind.BROKER, "1", "num.partitions")["num.partitions"]
        documented = describe(client, Kind.BROKER, "1", "num.partitions", documentation=True)["num.partitions"]
        assert plain.documentation is None
        assert "[1,...]" in documented.documentation
        assert documented.documentation.startswith("Partitions of topics that do not say. Int, default")


class TestGroups:
    def test_settings_of_a_group(self, client: CoreClient) -> None:
        name = "consumer.session.timeout.ms"
        assert shown(describe(client, Kind.GROUP, "g")[name]) == ("45000", 5, [("group." + name, "45000", 5)])
        assert alter(client, Kind.GROUP, "g", (name, SET, "50000")).error_code == 0
        assert shown(describe(client, Kind.GROUP, "g")[name]) == (
            "50000", 8, [(name, "50000", 8), ("group." + name, "45000", 5)]
        )  # fmt: skip
        assert client.broker.state.metadata.group_configs("g") == {name: "50000"}
        alter(client, Kind.GROUP, "g", (name, DELETE, None))
        assert client.broker.state.metadata.group_configs("g") == {}

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("consumer.session.timeout.ms", "1"),
            ("consumer.session.timeout.ms", "5000000"),
            ("consumer.session.timeout.ms", "x"),
            ("consumer.heartbeat.interval.ms", "50000"),
            ("share.auto.offset.reset", "sometimes"),
            ("share.auto.offset.reset", "by_duration:x"),
            ("share.isolation.level", "all"),
            ("share.session.timeout.ms", "1"),
            ("share.delivery.count.limit", "11"),
            ("streams.session.timeout.ms", "70000"),
            ("nope", "1"),
        ],
    )
    def test_bounds_are_the_brokers(self, client: CoreClient, name: str, value: str) -> None:
        assert alter(client, Kind.GROUP, "g", (name, SET, value)).error_code == INVALID_CONFIG

    def test_a_group_must_have_a_name(self, client: CoreClient) -> None:
        op = ("consumer.session.timeout.ms", SET, "50000")
        assert alter(client, Kind.GROUP, "", op).error_code == INVALID_REQUEST


class TestClientMetrics:
    @pytest.mark.parametrize(
        ("name", "value", "code"),
        [
            ("interval.ms", "50000", 0),
            ("interval.ms", "5", INVALID_REQUEST),
            ("metrics", "a,b", 0),
            ("match", "client_id=a.*", 0),
            ("match", "x=y", INVALID_CONFIG),
            ("match", "client_id=(", INVALID_CONFIG),
            ("nope", "1", INVALID_REQUEST),
        ],
    )
    def test_subscriptions(self, client: CoreClient, name: str, value: str, code: int) -> None:
        assert alter(client, Kind.CLIENT_METRICS, "cm", (name, SET, value)).error_code == code
        if code == 0:
            assert shown(describe(client, Kind.CLIENT_METRICS, "cm")[name])[:2] == (value, 7)


class TestLoggers:
    def test_levels_are_shown_and_set(self, client: CoreClient) -> None:
        logger = "kafka.request.logger"
        assert describe(client, Kind.BROKER_LOGGER, "1")[logger].value == "WARN"
        assert alter(client, Kind.BROKER_LOGGER, "1", (logger, SET, "DEBUG"), validate_only=True).error_code == 0
        assert describe(client, Kind.BROKER_LOGGER, "1")[logger].value == "WARN"
        alter(client, Kind.BROKER_LOGGER, "1", (logger, SET, "DEBUG"))
        assert describe(client, Kind.BROKER_LOGGER, "1")[logger].value == "DEBUG"
        alter(client, Kind.BROKER_LOGGER, "1", (logger, DELETE, None))
        assert describe(client, Kind.BROKER_LOGGER, "1")[logger].value == "WARN"

    @pytest.mark.parametrize(
        ("broker_id", "op", "code"),
        [
            ("1", ("root", SET, "LOUD"), INVALID_CONFIG),
            ("1", ("nope", SET, "INFO"), INVALID_CONFIG),
            ("1", ("root", DELETE, None), INVALID_REQUEST),
            ("1", ("root", APPEND, "INFO"), INVALID_REQUEST),
            ("7", ("root", SET, "INFO"), INVALID_REQUEST),
            ("", ("root", SET, "INFO"), INVALID_REQUEST),
        ],
    )
    def test_errors(self, client: CoreClient, broker_id: str, op: Op, code: int) -> None:
        assert alter(client, Kind.BROKER_LOGGER, broker_id, op).error_code == code


class TestDescribingWhatIsNotThere:
    @pytest.mark.parametrize(
        ("kind", "name", "code"),
        [
            (Kind.TOPIC, "none", errors.UnknownTopicOrPartitionError.code),
            (Kind.TOPIC, "", errors.InvalidTopicError.code),
            (Kind.BROKER, "7", INVALID_REQUEST),
            (Kind.BROKER, "abc", INVALID_REQUEST),
            (Kind.BROKER_LOGGER, "", INVALID_REQUEST),
            (Kind.GROUP, "", INVALID_REQUEST),
            (Kind.CLIENT_METRICS, "", INVALID_REQUEST),
            (99, "x", INVALID_REQUEST),
        ],
    )
    def test_errors(self, client: CoreClient, kind: int, name: str, code: int) -> None:
        asked = DescribeConfigsResource(resource_type=kind, resource_name=name)
        assert client.request(DescribeConfigsRequest(resources=[asked]), 4).results[0].error_code == code


def test_the_resources_that_have_settings_are_listed(topic: CoreClient) -> None:
    alter(topic, Kind.GROUP, "g", ("consumer.session.timeout.ms", SET, "50000"))
    alter(topic, Kind.CLIENT_METRICS, "cm", ("interval.ms", SET, "50000"))

    def listed(version: int, *types: int) -> Any:
        response = topic.request(ListConfigResourcesRequest(resource_types=list(types)), version)
        return response.error_code, sorted((r.resource_type, r.resource_name) for r in response.config_resources)

    assert listed(0) == (0, [(16, "cm")])
    assert listed(1) == (0, [(2, "t"), (4, "1"), (8, "1"), (16, "cm"), (32, "g")])
    assert listed(1, 32) == (0, [(32, "g")])
    assert listed(1, 99) == (errors.UnsupportedVersionError.code, [])


def test_what_was_there_before_the_change_can_still_be_read(topic: CoreClient) -> None:
    topic.request(produce("t", batch(b"kept")), 12)
    alter(topic, Kind.TOPIC, "t", ("cleanup.policy", SET, "compact"), ("segment.ms", SET, "1"))
    assert len(topic.request(fetch("t"), 12).responses[0].partitions[0].records) > 0


def test_a_groups_own_heartbeat_interval_is_told_to_its_members(client: CoreClient) -> None:
    def interval(group: str) -> int:
        joining = ConsumerGroupHeartbeatRequest(
            group_id=group, member_id="m", rebalance_timeout_ms=1000, subscribed_topic_names=["t"], topic_partitions=[]
        )
        told: int = client.request(joining, 1).heartbeat_interval_ms
        return told

    alter(client, Kind.GROUP, "g", ("consumer.heartbeat.interval.ms", SET, "7000"))
    assert [interval("g"), interval("other")] == [7000, 5000]
