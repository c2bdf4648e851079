"""Every setting that is called supported changes what the broker does: by a test that fails without it, or here.

Most have tests of their own, which `setting_effects.txt` names: each fails when the setting is dropped where it is
taken up (`tests/support/ignored_setting.py`). What a broker sets for topics in general, and some others, are observed
here. Who adds a setting to `config/support.py` adds a row, or the first test fails.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from barnabas.broker.dynamic_config import DYNAMIC
from barnabas.config.support import SUPPORTED
from barnabas.config.topic_defaults import TOPIC_SYNONYMS
from barnabas.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from barnabas.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.messages.init_producer_id_request import InitProducerIdRequest
from barnabas.protocol.messages.metadata_request import MetadataRequest
from tests.support.core_broker import CoreBroker, batch, create, fetch, produce

ROOT = Path(__file__).parents[3]
BROKER_TESTS = ROOT / "tests" / "unit" / "broker"
#: Section and setting → a test below `BROKER_TESTS` that fails when the setting has no effect.
SHOWN_BY = dict(line.split(" ") for line in Path(__file__).with_name("setting_effects.txt").read_text().splitlines())
#: No test was found that fails without them. A line goes when there is one.
NOT_SHOWN_YET: frozenset[str] = frozenset(
    {
        "broker:controller.listener.names",
        "broker:group.consumer.assignors",
        "broker:group.consumer.heartbeat.interval.ms",
        "broker:group.consumer.max.assignment.interval.ms",
        "broker:group.consumer.max.heartbeat.interval.ms",
        "broker:group.consumer.max.session.timeout.ms",
        "broker:group.consumer.min.assignment.interval.ms",
        "broker:group.consumer.min.heartbeat.interval.ms",
        "broker:group.consumer.min.session.timeout.ms",
        "broker:group.max.session.timeout.ms",
        "broker:group.min.session.timeout.ms",
        "broker:log.cleaner.backoff.ms",
        "broker:log.cleaner.dedupe.buffer.size",
        "broker:log.cleaner.io.buffer.load.factor",
        "broker:log.flush.offset.checkpoint.interval.ms",
        "broker:log.flush.start.offset.checkpoint.interval.ms",
        "broker:offsets.topic.compression.codec",
        "broker:quota.window.num",
        "broker:quota.window.size.seconds",
        "broker:transaction.abort.timed.out.transaction.cleanup.interval.ms",
        "broker:transaction.remove.expired.transaction.cleanup.interval.ms",
        "topic:compression.gzip.level",
        "topic:compression.lz4.level",
        "topic:compression.zstd.level",
        "topic:message.timestamp.after.max.ms",
        "topic:min.insync.replicas",
        "topic:segment.jitter.ms",
    }
)


def rack(broker: CoreBroker) -> Any:
    return broker.connect().request(MetadataRequest(topics=[]), 12).brokers[0].rack


def creation(broker: CoreBroker) -> Any:
    request = create("new")
    request.topics[0].replication_factor = -1
    return broker.connect().request(request, 7).topics[0].error_code


def fetched(broker: CoreBroker) -> Any:
    client = broker.connect()
    client.request(create("t"), 7)
    for _ in range(4):
        client.request(produce("t", batch(bytes(1000))), 12)
    return len(client.request(fetch("t"), 12).responses[0].partitions[0].records)


def longest_transaction(broker: CoreBroker) -> Any:
    request = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000)
    return broker.connect().request(request, 4).error_code


def internal_topic(key_type: int) -> Callable[[CoreBroker], Any]:
    def observe(broker: CoreBroker) -> Any:
        broker.connect().request(FindCoordinatorRequest(key_type=key_type, coordinator_keys=["x"]), 4)
        (topic,) = broker.state.metadata.topics()
        return topic.partitions, topic.configs["segment.bytes"]

    return observe


#: Setting → another value than its default, and what changes with it.
OBSERVED: dict[str, tuple[str, Callable[[CoreBroker], Any]]] = {
    "broker.rack": ("r1", rack),
    "default.replication.factor": ("2", creation),
    "fetch.max.bytes": ("1024", fetched),
    "transaction.max.timeout.ms": ("1000", longest_transaction),
    "transaction.state.log.num.partitions": ("3", internal_topic(1)),
    "transaction.state.log.segment.bytes": ("1048576", internal_topic(1)),
    "offsets.topic.segment.bytes": ("1048576", internal_topic(0)),
}

#: Other values than the defaults for what brokers set for topics in general.
VALUES = {
    "compression.type": "gzip", "log.cleanup.policy": "compact", "log.message.timestamp.type": "LogAppendTime",
    "log.cleaner.min.cleanable.ratio": "0.25", "compression.gzip.level": "1", "compression.lz4.level": "1",
    "compression.zstd.level": "1",
}  # fmt: skip
#: They hold for a codec only.
WITH = {f"compression.{codec}.level": {"compression.type": codec} for codec in ("gzip", "lz4", "zstd")}
#: They are not taken one by one: `min.insync.replicas` has tests of its own.
OF_TOPICS = {
    synonym: topic
    for topic, synonyms in TOPIC_SYNONYMS.items()
    if topic in SUPPORTED["topic"] and topic != "min.insync.replicas"
    for synonym, _ in synonyms
    if synonym in SUPPORTED["broker"]
}


def log_settings(broker: CoreBroker) -> dict[str, Any]:
    """What the log of a topic goes by that sets nothing itself."""
    if broker.state.metadata.topic("t") is None:
        broker.connect().request(create("t"), 7)
    config = broker.state.replica_manager.partition("t", 0).log.config
    return {name: getattr(config, name) for name in config.__slots__ if name != "originals"}


def value_of(setting: str) -> str:
    return VALUES.get(setting, "2" if setting.endswith(("hours", "minutes")) else "7654321")


def test_every_supported_setting_has_a_test_of_its_effect() -> None:
    supported = {f"{section}:{name}" for section in ("broker", "topic") for name in SUPPORTED[section]}
    shown = {*SHOWN_BY, *(f"broker:{name}" for name in {*OBSERVED, *OF_TOPICS})}
    assert supported - shown == NOT_SHOWN_YET
    assert shown <= supported


def test_the_tests_that_are_named_exist() -> None:
    for path, *names in {tuple(test.split("::")) for test in SHOWN_BY.values()}:
        scope: Any = ast.parse((BROKER_TESTS / path).read_text()).body
        for name in names:
            scope = next(node.body for node in scope if getattr(node, "name", None) == name)


@pytest.mark.parametrize("setting", OBSERVED)
def test_a_setting_of_the_broker_changes_what_it_does(setting: str) -> None:
    value, observe = OBSERVED[setting]
    assert observe(CoreBroker({setting: value})) != observe(CoreBroker())


@pytest.mark.parametrize("setting", sorted(OF_TOPICS))
def test_what_brokers_set_for_topics_reaches_their_logs(setting: str) -> None:
    others = WITH.get(setting, {})
    assert log_settings(CoreBroker({**others, setting: value_of(setting)})) != log_settings(CoreBroker(others))


@pytest.mark.parametrize("setting", sorted(OF_TOPICS.keys() & DYNAMIC))
def test_so_it_does_while_the_broker_runs(setting: str) -> None:
    others = WITH.get(setting, {})
    running = CoreBroker(others)
    before = log_settings(running)
    config = AlterableConfig(name=setting, config_operation=0, value=value_of(setting))
    resource = AlterConfigsResource(resource_type=4, resource_name="", configs=[config])
    response = running.connect().request(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses[0]
    assert response.error_code == 0, response.error_message
    after = log_settings(running)
    assert after != before
    assert after == log_settings(CoreBroker({**others, setting: value_of(setting)}))


@pytest.mark.slow
@pytest.mark.parametrize("setting", sorted(SHOWN_BY))
def test_a_named_test_fails_without_the_effect_of_the_setting(setting: str) -> None:
    done = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-x", "-q", "-p", "tests.support.ignored_setting", "-p", "no:cacheprovider",
            f"{BROKER_TESTS}/{SHOWN_BY[setting]}",
        ],
        cwd=ROOT, env={**os.environ, "IGNORED_SETTING": setting}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stdout[-3000:]
