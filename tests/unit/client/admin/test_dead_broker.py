"""One broker that is dead costs its part of an answer, and no more: all that asks brokers by their ids.

The list is held against the code: an operation that is added stands in it. What is asked of a leader or a coordinator
finds another one (`test_a_leader_that_is_gone_is_looked_up_again`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import barnabas.client.admin as room
from barnabas.client.admin.configs import AlterConfigOp, ConfigResource
from barnabas.client.admin.log_dirs import TopicPartitionReplica
from barnabas.errors import KafkaTimeoutError
from barnabas.protocol.api import ApiKey
from barnabas.protocol.kinds import OpType
from barnabas.protocol.messages.alter_replica_log_dirs_response import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from barnabas.protocol.messages.describe_configs_response import DescribeConfigsResponse, DescribeConfigsResult
from barnabas.protocol.messages.describe_log_dirs_response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from barnabas.protocol.messages.incremental_alter_configs_response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from barnabas.protocol.messages.list_groups_response import ListedGroup, ListGroupsResponse
from barnabas.protocol.messages.list_transactions_response import ListTransactionsResponse, TransactionState
from tests.support.network_fakes import metadata_response

#: Broker 1 is dead, broker 2 alive.
BROKERS = [(1, "one", 9092), (2, "two", 9093)]
REPLICAS = [TopicPartitionReplica("t", 0, number) for number in (1, 2)]
RESOURCES = [ConfigResource.broker(number) for number in (1, 2)]
CHANGES = {resource: [AlterConfigOp("a", "1", OpType.SET)] for resource in RESOURCES}

Answer = Callable[[Any], Any]


def log_dirs(request: Any) -> DescribeLogDirsResponse:
    topic = DescribeLogDirsTopic(name="t", partitions=[DescribeLogDirsPartition(partition_index=0)])
    return DescribeLogDirsResponse(results=[DescribeLogDirsResult(log_dir="/data", topics=[topic])])


def moved(request: Any) -> AlterReplicaLogDirsResponse:
    done = AlterReplicaLogDirPartitionResult(partition_index=0)
    return AlterReplicaLogDirsResponse(results=[AlterReplicaLogDirTopicResult(topic_name="t", partitions=[done])])


def configs(request: Any) -> DescribeConfigsResponse:
    asked = [DescribeConfigsResult(resource_type=r.resource_type, resource_name=r.resource_name)
             for r in request.resources]  # fmt: skip
    return DescribeConfigsResponse(results=asked)


def changed(request: Any) -> IncrementalAlterConfigsResponse:
    done = [AlterConfigsResourceResponse(resource_type=r.resource_type, resource_name=r.resource_name)
            for r in request.resources]  # fmt: skip
    return IncrementalAlterConfigsResponse(responses=done)


def groups(request: Any) -> ListGroupsResponse:
    return ListGroupsResponse(groups=[ListedGroup(group_id="g")])


def transactions(request: Any) -> ListTransactionsResponse:
    return ListTransactionsResponse(
        transaction_states=[TransactionState(transactional_id="id", producer_id=7, transaction_state="Ongoing")]
    )


#: By the operation: how it is called, what the brokers answer, and the keys of what is told and of what is missing.
BY_BROKER: dict[str, tuple[Callable[[Any], Any], ApiKey, Answer, list[Any], list[Any]]] = {
    "list_groups": (lambda admin: admin.list_groups(raise_errors=False), ApiKey.LIST_GROUPS, groups, ["g"], [1]),
    "list_transactions": (
        lambda admin: admin.list_transactions(raise_errors=False), ApiKey.LIST_TRANSACTIONS, transactions, ["id"], [1],
    ),
    "describe_log_dirs": (
        lambda admin: admin.describe_log_dirs([1, 2], raise_errors=False), ApiKey.DESCRIBE_LOG_DIRS, log_dirs, [2], [1],
    ),
    "describe_replica_log_dirs": (
        lambda admin: admin.describe_replica_log_dirs(REPLICAS, raise_errors=False),
        ApiKey.DESCRIBE_LOG_DIRS, log_dirs, REPLICAS[1:], REPLICAS[:1],
    ),
    "alter_replica_log_dirs": (
        lambda admin: admin.alter_replica_log_dirs(dict.fromkeys(REPLICAS, "/data"), raise_errors=False),
        ApiKey.ALTER_REPLICA_LOG_DIRS, moved, REPLICAS[1:], REPLICAS[:1],
    ),
    "describe_configs": (
        lambda admin: admin.describe_configs(RESOURCES, raise_errors=False),
        ApiKey.DESCRIBE_CONFIGS, configs, RESOURCES[1:], RESOURCES[:1],
    ),
    "incremental_alter_configs": (
        lambda admin: admin.incremental_alter_configs(CHANGES, raise_errors=False),
        ApiKey.INCREMENTAL_ALTER_CONFIGS, changed, RESOURCES[1:], RESOURCES[:1],
    ),
}  # fmt: skip

#: Where a broker is chosen by its id, by file: those above, and one broker that the caller names (describe_producers).
CHOSEN_BY_ID = {"configs.py": 2, "groups.py": 1, "log_dirs.py": 1, "requests.py": 1, "transactions.py": 1}


@pytest.mark.parametrize("operation", BY_BROKER)
def test_what_the_others_answer_is_told_with_the_error_of_the_dead_one(
    operation: str, new_admin: Callable[..., Any]
) -> None:
    call, api, answer, told, missing = BY_BROKER[operation]
    admin = new_admin(bootstrap_servers="boot:9093", default_api_timeout_ms=3000)
    admin.selector.refusing.add(9092)
    admin.handlers[ApiKey.METADATA] = lambda request: metadata_response(BROKERS, {}, leader=2)
    admin.handlers[api] = answer
    started = admin.clock.now

    found = call(admin.client)

    assert (list(found), list(found.errors)) == (told, missing)
    (error,) = found.errors.values()
    assert isinstance(error, KafkaTimeoutError)
    assert "Connection refused" in str(error)
    assert missing != [1] or f"{operation} of broker 1 did not succeed in time" in str(error)
    assert admin.clock.now - started < 3.5


def test_no_operation_that_asks_brokers_by_their_ids_is_missing_from_the_list() -> None:
    folder = Path(room.__file__).parent
    by_id = re.compile(r"StaticLookup(?:\[\w+\] = StaticLookup)?\((?:lambda|_\w+_of|_\w+_of if)")
    found = {path.name: len(by_id.findall(path.read_text())) for path in sorted(folder.glob("*.py"))}
    assert {name: count for name, count in found.items() if count} == CHOSEN_BY_ID


def test_spark_and_streams_ask_all_brokers_in_one_place_only() -> None:
    """What needs every broker's answer there waits for those that coordinate something: see `coordinator_survey`."""
    package = Path(room.__file__).parents[2]
    asks_all = re.compile(r"list_transactions|list_groups|describe_log_dirs|\b_ask_all_brokers|describe_cluster")
    files = [*(package / "spark").rglob("*.py"), *(package / "streams").rglob("*.py")]
    found = {str(path.relative_to(package)) for path in files if asks_all.search(path.read_text())}
    assert found == {"spark/exactly_once/open_transactions.py"}
