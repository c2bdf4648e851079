"""Every setting that is called supported changes what the broker does: by a test that fails without it, or here.

Most have tests of their own, which `setting_effects.txt` names: each fails when the setting is dropped where it is
taken up (`tests/support/ignored_setting.py`). What a broker sets for topics in general is observed here,
others by `observations.py`. Who adds a setting to `config/support.py` adds a row, or the first test fails.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from barnabas.broker.dynamic_broker_config import DYNAMIC
from barnabas.config.support import SUPPORTED
from barnabas.config.topic_defaults import TOPIC_SYNONYMS
from tests.support.core_broker import CoreBroker, create
from tests.unit.config.observations import BROKER, OBSERVED, OBSERVED_OF_TOPICS, alter

ROOT = Path(__file__).parents[3]
BROKER_TESTS = ROOT / "tests" / "unit" / "broker"
#: Section and setting → a test below `BROKER_TESTS` that fails when the setting has no effect.
SHOWN_BY = dict(line.split(" ") for line in Path(__file__).with_name("setting_effects.txt").read_text().splitlines())
#: Other values than the defaults for what brokers set for topics in general.
VALUES = {
    "compression.type": "gzip", "log.cleanup.policy": "compact", "log.message.timestamp.type": "LogAppendTime",
    "log.cleaner.min.cleanable.ratio": "0.25", "compression.gzip.level": "1", "compression.lz4.level": "1",
    "compression.zstd.level": "1",
}  # fmt: skip
#: They hold for a codec only.
WITH = {f"compression.{codec}.level": {"compression.type": codec} for codec in ("gzip", "lz4", "zstd")}
#: What is not of logs has tests of its own.
_NOT_OF_LOGS = ("min.insync.replicas", "unclean.leader.election.enable")
OF_TOPICS = {
    synonym: topic
    for topic, synonyms in TOPIC_SYNONYMS.items()
    if topic in SUPPORTED["topic"] and topic not in _NOT_OF_LOGS
    for synonym, _ in synonyms
    if synonym in SUPPORTED["broker"]
}
#: Listeners and fetchers change with a restart only (`dynamic_broker_config`); what listeners are secured by:
#: `security/test_listener_security`.
WITH_TESTS_OF_THEIR_OWN = {
    "listeners", "listener.security.protocol.map", "num.replica.fetchers", *_NOT_OF_LOGS,
}  # fmt: skip
DYNAMIC_OF_BROKERS = {
    name
    for name in (DYNAMIC & SUPPORTED["broker"]) - OF_TOPICS.keys() - WITH_TESTS_OF_THEIR_OWN
    if not name.startswith(("ssl.", "sasl."))
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
    observed = {f"broker:{name}" for name in {*OBSERVED, *OF_TOPICS}} | {f"topic:{name}" for name in OBSERVED_OF_TOPICS}
    assert {*SHOWN_BY, *observed} == supported


def test_the_tests_that_are_named_exist() -> None:
    for path, *names in {tuple(test.split("::")) for test in SHOWN_BY.values()}:
        scope: Any = ast.parse((BROKER_TESTS / path).read_text()).body
        for name in names:
            scope = next(node.body for node in scope if getattr(node, "name", None) == name)


@pytest.mark.parametrize("setting", OBSERVED)
def test_a_setting_of_the_broker_changes_what_it_does(setting: str) -> None:
    value, look, others = OBSERVED[setting]
    assert look(CoreBroker({**others, setting: value})) != look(CoreBroker({**others}))


@pytest.mark.parametrize("setting", OBSERVED_OF_TOPICS)
def test_a_setting_of_a_topic_changes_what_is_done_with_it(setting: str) -> None:
    value, look, others = OBSERVED_OF_TOPICS[setting]
    broker = CoreBroker()
    assert look(broker, {**others, setting: value}) != look(broker, {**others})


@pytest.mark.parametrize("setting", sorted(OF_TOPICS))
def test_what_brokers_set_for_topics_reaches_their_logs(setting: str) -> None:
    others = WITH.get(setting, {})
    assert log_settings(CoreBroker({**others, setting: value_of(setting)})) != log_settings(CoreBroker(others))


@pytest.mark.parametrize("setting", sorted(OF_TOPICS.keys() & DYNAMIC))
def test_so_it_does_while_the_broker_runs(setting: str) -> None:
    others = WITH.get(setting, {})
    running = CoreBroker(others)
    before = log_settings(running)
    assert alter(running, BROKER, "", setting, value_of(setting)).error_code == 0
    after = log_settings(running)
    assert after != before
    assert after == log_settings(CoreBroker({**others, setting: value_of(setting)}))


@pytest.mark.parametrize("setting", sorted(DYNAMIC_OF_BROKERS))
def test_a_setting_that_may_change_is_not_read_once(setting: str) -> None:
    value, look, others = OBSERVED[setting]
    running = CoreBroker({**others})
    before = look(running)
    assert alter(running, BROKER, "", setting, value).error_code == 0
    after = look(running)
    assert after != before
    assert after == look(CoreBroker({**others, setting: value}))


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
