"""Every setting of a client that is called supported reaches a part of it: the parts of two clients are compared.

What the parts hold is found by walking through them (`client_parts`), without the settings themselves. A setting that
acts elsewhere has a test of its own, named here. Who adds a setting to `config/support.py` gets its test by that, or
has to say which other value it may have.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

import barnabas.network.security
from barnabas.config.config_def import definitions
from barnabas.config.support import SUPPORTED
from barnabas.network.security.jwt_assertion import PREFIX as ASSERTION
from tests.unit.client.client_parts import CLIENTS, leaves

TESTS = Path(__file__).parents[2]
SECURITY = Path(barnabas.network.security.__file__).parent


class Interceptor:
    """Of producers and of consumers."""

    def on_send(self, record: Any) -> Any:
        return record

    def on_consume(self, records: Any) -> Any:
        return records


class Chooser:
    """A partitioner."""

    def partition(self, *_: Any) -> int:
        return 0


#: Other values than the defaults, where a number that is greater by one will not do.
VALUES: dict[str, Any] = {
    "acks": "1", "auto.offset.reset": "earliest", "bootstrap.servers": "other:2",
    "client.id": "d", "client.rack": "r",
    "compression.gzip.level": 1, "compression.lz4.level": 1, "compression.type": "zstd", "compression.zstd.level": 1,
    "group.id": "other", "group.instance.id": "i", "group.protocol": "consumer", "group.remote.assignor": "uniform",
    "interceptor.classes": [Interceptor], "isolation.level": "read_committed", "key.deserializer": bytes.decode,
    "max.in.flight.requests.per.connection": 4, "metadata.recovery.strategy": "none",
    "partition.assignment.strategy": ["roundrobin"], "partitioner.class": Chooser, "retries": 3,
    "security.protocol": "SSL", "transactional.id": "t", "value.deserializer": bytes.decode,
}  # fmt: skip
#: What has to be set besides, in both clients.
WITH: dict[str, dict[str, Any]] = {
    "acks": {"enable.idempotence": False},
    **{f"compression.{codec}.level": {"compression.type": codec} for codec in ("gzip", "lz4", "zstd")},
    "group.remote.assignor": {"group.protocol": "consumer"},
    "transaction.timeout.ms": {"transactional.id": "t"},
    "transaction.two.phase.commit.enable": {"transactional.id": "t"},
}
#: Settings that act in the shells, in compiled parts or before there is a client, and the tests that show them.
_PRODUCER = "unit/client/producer/test_producer.py::"
_QUEUES = "contract/test_share_consumer.py::"
SHOWN_BY = {
    "client.dns.lookup": "unit/network/test_canonical_names.py"
    "::test_canonical_names_take_the_place_of_bootstrap_servers_where_they_are_asked_for",
    "bootstrap.controllers": "unit/client/admin/test_controllers.py"
    "::test_the_cluster_is_described_by_the_active_controller",
    "config.providers": "unit/config/test_config_providers.py::test_every_client_reads_variables_in_all_its_settings",
    "default.api.timeout.ms": "unit/client/admin/test_admin_client.py"
    "::test_the_time_is_over_after_the_api_timeout_when_none_is_given",
    "enable.metrics.push": "contract/test_client_telemetry.py::test_a_client_that_sends_no_telemetry_has_no_id",
    "key.serializer": _PRODUCER + "test_key_and_value_pass_the_serializers_of_the_settings_and_travel_as_bytes",
    "max.block.ms": _PRODUCER + "test_full_memory_fails_the_record_after_max_block_ms",
    "partitioner.ignore.keys": _PRODUCER
    + "test_keys_can_be_ignored_so_that_all_records_fill_the_sticky_partitions_batch",
    "retries": "unit/client/admin/test_admin_client.py::test_it_tries_again_no_more_often_than_retries_allows",
    "share.acknowledgement.mode": _QUEUES + "test_what_does_not_fit_is_refused_in_words",
    "share.acquire.mode": _QUEUES + "test_record_limit_keeps_to_max_poll_records",
    "value.serializer": _PRODUCER + "test_key_and_value_pass_the_serializers_of_the_settings_and_travel_as_bytes",
}
_OF_ADMINS = {"bootstrap.controllers", "default.api.timeout.ms", "retries"}
_OF_SHARE_CONSUMERS = {"share.acknowledgement.mode", "share.acquire.mode"}
_OF_ALL = {"client.dns.lookup", "config.providers"}
ELSEWHERE = {
    *(("producer", name) for name in SHOWN_BY.keys() - _OF_ADMINS - _OF_SHARE_CONSUMERS),
    *(("consumer", name) for name in _OF_ALL | _OF_SHARE_CONSUMERS | {"enable.metrics.push"}),
    *(("admin", name) for name in _OF_ALL | _OF_ADMINS),
}
SUPPORTED_OF_CLIENTS = sorted((section, name) for section in CLIENTS for name in SUPPORTED[section])


def is_of_security(name: str) -> bool:
    return name.startswith(("ssl.", "sasl."))


def other_value(section: str, name: str) -> Any:
    key = definitions(section).key(name)
    if name in VALUES:
        return VALUES[name]
    return not key.default if key.type == "boolean" else (key.default or 0) + 1


@pytest.mark.parametrize(
    ("section", "name"),
    [each for each in SUPPORTED_OF_CLIENTS if each not in ELSEWHERE and not is_of_security(each[1])],
)
def test_a_setting_reaches_a_part_of_its_client(section: str, name: str) -> None:
    others = WITH.get(name, {})
    assert leaves(section, others) == leaves(section, others)

    assert leaves(section, {**others, name: other_value(section, name)}) != leaves(section, others)


def test_a_setting_that_nothing_reads_would_be_noticed() -> None:
    assert leaves("producer", {"metrics.recording.level": "DEBUG"}) == leaves("producer", {})


@pytest.mark.parametrize("test", sorted(set(SHOWN_BY.values())))
def test_the_tests_of_the_others_exist(test: str) -> None:
    path, name = test.split("::")
    assert name in {getattr(node, "name", None) for node in ast.parse((TESTS / path).read_text()).body}


def test_what_secures_connections_is_named_by_the_code_that_secures_them() -> None:
    nodes = [node for path in SECURITY.glob("*.py") for node in ast.walk(ast.parse(path.read_text()))]
    named = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    patterns = [_pattern(node) for node in nodes if isinstance(node, ast.JoinedStr)]

    names = {name for _, name in SUPPORTED_OF_CLIENTS if is_of_security(name)} - named
    assert {name for name in names if not any(pattern.fullmatch(name) for pattern in patterns)} == set()


def _pattern(node: ast.JoinedStr) -> re.Pattern[str]:
    """Return what an f-string that begins as a setting does may become."""
    parts = [_part(part) for part in node.values]
    return re.compile("".join(parts) if is_of_security(parts[0].replace("\\", "")) else "(?!)")


def _part(part: ast.expr) -> str:
    if isinstance(part, ast.Constant):
        return re.escape(str(part.value))
    return re.escape(ASSERTION) if "id='PREFIX'" in ast.dump(part) else "[a-z]+"
