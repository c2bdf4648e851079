"""Any value for any argument of any operation of an admin client: an error that names the argument, and no harm.

The operations and their parameters are found by `inspect`. The client for asyncio runs the same operations as the one
for threads, on virtual time.
"""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from barnabas import TopicPartition, aio
from barnabas.admin import (
    AbortTransactionSpec,
    AclBindingFilter,
    ClientQuotaEntity,
    ConfigResource,
    ElectionType,
    MemberToRemove,
    NewTopic,
    OffsetAndMetadata,
    RaftVoterEndpoint,
    TopicPartitionReplica,
)
from barnabas.errors import IllegalArgumentError, IllegalTypeError, KafkaError
from tests.support.virtual_loop import VirtualBroker, VirtualEnvironment, run

T0 = TopicPartition("t", 0)
WRONG: tuple[Any, ...] = (
    1.5, -1, 2**40, 2**70, math.nan, "", "x\ud800", "x" * 40_000, "text", b"bytes", b"\xff" * 16, True, object(),
    object,
    [], [1], [None], [object()], ["x\ud800"], ["x" * 40_000], [T0], [("t",)], [("t", 1.5)], [("t", 2**40)],
    [NewTopic("x\ud800")],
    [NewTopic("t", num_partitions=2**40)], [NewTopic("t", configs={"a": object()})], [ConfigResource("topic", "t")],
    [MemberToRemove("x\ud800")], [TopicPartitionReplica("t", 0, 2**70)],
    {}, {"t": object()}, {"t": -1}, {"t": 2**40}, {"t": [object()]}, {"x\ud800": 2}, {1: 2}, {T0: 1.5}, {T0: 2**70},
    {T0: [object()]}, {T0: [2**40]}, {("t",): 1}, {("t", 2**40): 1}, {T0: OffsetAndMetadata(2**70)},
    {T0: OffsetAndMetadata(1, "x\ud800")}, {ClientQuotaEntity.of(user="u"): {"producer_byte_rate": "fast"}},
    {ClientQuotaEntity.of(user="u"): {object(): 1.0}}, {ConfigResource("topic", "t"): {"a": object()}},
    {ConfigResource("topic", "t"): object()}, (), ("t", 0), np.float32(0.1), 3 + 2j, lambda: 1,
)  # fmt: skip
GIVEN: dict[str, Any] = {
    "topics": ["t"], "increases": {"t": 1}, "specs": {T0: -1}, "before": {T0: 0},
    "election_type": ElectionType.PREFERRED,
    "reassignments": {T0: [1]}, "brokers": [1], "replicas": [TopicPartitionReplica("t", 0, 1)], "hmac": b"hmac",
    "replica_assignment": {TopicPartitionReplica("t", 0, 1): "/d"}, "resources": [ConfigResource("topic", "t")],
    "changes": {ConfigResource("topic", "t"): {}}, "groups": ["g"], "group_id": "g", "offsets": {T0: 1},
    "partitions": [T0], "transactional_ids": ["id"], "transactional_id": "id", "acls": [],
    "filters": [AclBindingFilter()],
    "alterations": [], "updates": {"metadata.version": 1}, "voter_id": 1, "voter_directory_id": b"d" * 16,
    "endpoints": [RaftVoterEndpoint("CONTROLLER", "h", 1)], "broker_id": 99,
    "spec": AbortTransactionSpec(T0, 1, 0, 0),
}  # fmt: skip
#: They end the client, or concern the application's own metrics.
LEFT_OUT = {"close", "register_metric_for_subscription", "unregister_metric_from_subscription"}


def operations() -> Iterator[tuple[str, str]]:
    for name, operation in inspect.getmembers(aio.AdminClient, inspect.isfunction):
        if not name.startswith("_") and name not in LEFT_OUT and inspect.iscoroutinefunction(operation):
            for parameter in list(inspect.signature(operation).parameters)[1:]:
                yield name, parameter


def arguments(name: str, parameter: str, value: Any) -> dict[str, Any]:
    needed = {
        known: GIVEN[known]
        for known, about in list(inspect.signature(getattr(aio.AdminClient, name)).parameters.items())[1:]
        if about.default is inspect.Parameter.empty
    }
    if name in ("list_offsets_of_groups", "list_streams_group_offsets", "list_share_group_offsets"):
        needed["groups"] = {"g": None}
    if name == "alter_client_quotas":
        needed["changes"] = {ClientQuotaEntity.of(user="u"): {"producer_byte_rate": 1.0}}
    return {**needed, parameter: value}


def is_named(error: KafkaError, parameter: str) -> bool:
    """Whether the error says which argument it is about; errors of the cluster are about none."""
    return not isinstance(error, IllegalArgumentError | IllegalTypeError) or parameter.split("_")[0] in str(error)


async def attempt(admin: aio.AdminClient, name: str, parameter: str, value: Any) -> str:
    """Return what is wrong with the outcome; empty if nothing is."""
    said = f"{name}({parameter}={repr(value)[:50]})"
    try:
        await asyncio.wait_for(getattr(admin, name)(**arguments(name, parameter, value)), 120)
    except KafkaError as error:
        return "" if is_named(error, parameter) else f"{said} is refused without its name: {error!r}"
    except Exception as error:  # noqa: BLE001  whatever else it is, it is none of ours
        return f"{said} raises {error!r}"
    return ""


def try_values(step: int) -> list[str]:
    wrong: list[str] = []

    async def scenario(broker: VirtualBroker) -> None:
        broker.create("t")
        environment = VirtualEnvironment(broker)
        async with aio.AdminClient(
            bootstrap_servers="broker:9092", environment=environment, default_api_timeout_ms=2000,
            request_timeout_ms=1000, enable_metrics_push=False,
        ) as admin:  # fmt: skip
            await admin.describe_cluster()
            for number, (name, parameter) in enumerate(operations()):
                for value in WRONG[number % step :: step]:
                    if parameter == "timeout" and isinstance(value, int) and value > 1e9:
                        continue  # it is right, but nobody waits so long
                    wrong.append(await attempt(admin, name, parameter, value))
            assert "t" in await admin.list_topics() or await admin.create_topics([NewTopic("after")])
            assert admin._operations._client.in_flight_request_count() == 0

    run(scenario, {"auto.create.topics.enable": "false"})
    return [one for one in wrong if one]


def test_whatever_is_given_to_an_admin_client_is_taken_or_refused_by_name_and_does_no_harm() -> None:
    assert try_values(6) == []


@pytest.mark.slow
def test_the_same_with_every_value_for_every_argument() -> None:
    assert try_values(1) == []
