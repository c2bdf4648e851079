"""`AdminClient`: topics, settings, offsets, groups and all else of a cluster, in an event loop."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Coroutine, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar, Unpack, cast

from barnabas.aio.environment import LoopEnvironment
from barnabas.aio.loop_waiter import LoopWaiter
from barnabas.client.admin import admin_client
from barnabas.client.steps import Steps
from barnabas.client.telemetry.kafka_metric import KafkaMetric
from barnabas.network.metric_group import Measured, MetricGroup

if TYPE_CHECKING:
    from barnabas.config.typed_settings import AdminSettings

T = TypeVar("T")
R = TypeVar("R")
P = ParamSpec("P")
_Operations = admin_client.AdminClient


class _LoopOperations(_Operations):
    """The operations, whose last step is a coroutine here."""

    def __init__(
        self, environment: LoopEnvironment, configs: Mapping[str, Any] | None, settings: AdminSettings
    ) -> None:
        self.environment = environment
        super().__init__(configs, environment=environment, **settings)
        self._waiter = LoopWaiter(environment, environment.port_of(self._client))

    def _complete(self, steps: Steps[T]) -> Any:
        return self._run_steps(steps)

    async def _run_steps(self, steps: Steps[T]) -> T:
        await self._waiter.be_fair()
        try:
            while True:
                next(steps)
                await self._waiter.wait()
        except StopIteration as end:
            result: T = end.value
            return result

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._is_closed

    async def end(self) -> None:
        """Push telemetry a last time, then close."""
        try:
            if not self._is_closed and self.environment.loop is not None:
                await self._run_steps(self._last_push())
        finally:
            self.close()

    def close(self, timeout: float | None = None) -> None:
        self._close_connections()
        self._waiter.wake_all()

    @property
    def client_id(self) -> str:
        """The client id that goes with every request."""
        return self._client_id


def _awaited(
    operation: Callable[Concatenate[_Operations, P], R],
) -> Callable[Concatenate[AdminClient, P], Coroutine[Any, Any, R]]:
    """Return the same operation, to be awaited."""

    @functools.wraps(operation)
    async def call(self: AdminClient, *arguments: P.args, **keywords: P.kwargs) -> R:
        self._operations.environment.bind()
        steps: Any = operation(self._operations, *arguments, **keywords)
        result: R = await steps
        return result

    # mypy cannot tell that what wraps() returns takes its first argument by position.
    return cast("Callable[Concatenate[AdminClient, P], Coroutine[Any, Any, R]]", call)


class AdminClient(Measured):
    """Looks at a cluster and changes it, in asyncio.

        async with AdminClient(bootstrap_servers="localhost:9092") as admin:
            await admin.create_topics([NewTopic("flights", num_partitions=6)])
            print((await admin.describe_topics(["flights"]))["flights"].partitions)

    Operations, settings and errors are those of `barnabas.AdminClient`, and every operation is a coroutine function.
    Any number of tasks of one event loop may use it at once. When an operation is cancelled, the broker may have
    carried it out.
    """

    def __init__(
        self,
        configs: Mapping[str, Any] | None = None,
        /,
        *,
        environment: LoopEnvironment | None = None,
        **settings: Unpack[AdminSettings],
    ) -> None:
        self._operations = _LoopOperations(environment or LoopEnvironment(), configs, settings)

    # Topics.

    create_topics = _awaited(_Operations.create_topics)
    delete_topics = _awaited(_Operations.delete_topics)
    list_topics = _awaited(_Operations.list_topics)
    describe_topics = _awaited(_Operations.describe_topics)
    create_partitions = _awaited(_Operations.create_partitions)

    # Partitions and their offsets.

    list_offsets = _awaited(_Operations.list_offsets)
    delete_records = _awaited(_Operations.delete_records)
    elect_leaders = _awaited(_Operations.elect_leaders)
    alter_partition_reassignments = _awaited(_Operations.alter_partition_reassignments)
    list_partition_reassignments = _awaited(_Operations.list_partition_reassignments)
    describe_log_dirs = _awaited(_Operations.describe_log_dirs)
    describe_replica_log_dirs = _awaited(_Operations.describe_replica_log_dirs)
    alter_replica_log_dirs = _awaited(_Operations.alter_replica_log_dirs)

    # Settings and quotas.

    describe_configs = _awaited(_Operations.describe_configs)
    incremental_alter_configs = _awaited(_Operations.incremental_alter_configs)
    list_config_resources = _awaited(_Operations.list_config_resources)
    describe_client_quotas = _awaited(_Operations.describe_client_quotas)
    alter_client_quotas = _awaited(_Operations.alter_client_quotas)

    # Groups.

    list_groups = _awaited(_Operations.list_groups)
    describe_groups = _awaited(_Operations.describe_groups)
    describe_consumer_groups = _awaited(_Operations.describe_consumer_groups)
    describe_classic_groups = _awaited(_Operations.describe_classic_groups)
    describe_share_groups = _awaited(_Operations.describe_share_groups)
    describe_streams_groups = _awaited(_Operations.describe_streams_groups)
    delete_groups = _awaited(_Operations.delete_groups)
    delete_consumer_groups = _awaited(_Operations.delete_consumer_groups)
    delete_share_groups = _awaited(_Operations.delete_share_groups)
    delete_streams_groups = _awaited(_Operations.delete_streams_groups)
    remove_members_from_consumer_group = _awaited(_Operations.remove_members_from_consumer_group)
    list_consumer_group_offsets = _awaited(_Operations.list_consumer_group_offsets)
    list_offsets_of_groups = _awaited(_Operations.list_offsets_of_groups)
    list_streams_group_offsets = _awaited(_Operations.list_streams_group_offsets)
    alter_consumer_group_offsets = _awaited(_Operations.alter_consumer_group_offsets)
    alter_streams_group_offsets = _awaited(_Operations.alter_streams_group_offsets)
    delete_consumer_group_offsets = _awaited(_Operations.delete_consumer_group_offsets)
    delete_streams_group_offsets = _awaited(_Operations.delete_streams_group_offsets)
    list_share_group_offsets = _awaited(_Operations.list_share_group_offsets)
    alter_share_group_offsets = _awaited(_Operations.alter_share_group_offsets)
    delete_share_group_offsets = _awaited(_Operations.delete_share_group_offsets)

    # Transactions.

    describe_producers = _awaited(_Operations.describe_producers)
    describe_transactions = _awaited(_Operations.describe_transactions)
    list_transactions = _awaited(_Operations.list_transactions)
    abort_transaction = _awaited(_Operations.abort_transaction)
    fence_producers = _awaited(_Operations.fence_producers)
    force_terminate_transaction = _awaited(_Operations.force_terminate_transaction)

    # Security.

    describe_acls = _awaited(_Operations.describe_acls)
    create_acls = _awaited(_Operations.create_acls)
    delete_acls = _awaited(_Operations.delete_acls)
    describe_user_scram_credentials = _awaited(_Operations.describe_user_scram_credentials)
    alter_user_scram_credentials = _awaited(_Operations.alter_user_scram_credentials)
    create_delegation_token = _awaited(_Operations.create_delegation_token)
    renew_delegation_token = _awaited(_Operations.renew_delegation_token)
    expire_delegation_token = _awaited(_Operations.expire_delegation_token)
    describe_delegation_token = _awaited(_Operations.describe_delegation_token)

    # The cluster.

    describe_cluster = _awaited(_Operations.describe_cluster)
    describe_features = _awaited(_Operations.describe_features)
    update_features = _awaited(_Operations.update_features)
    describe_metadata_quorum = _awaited(_Operations.describe_metadata_quorum)
    add_raft_voter = _awaited(_Operations.add_raft_voter)
    remove_raft_voter = _awaited(_Operations.remove_raft_voter)
    unregister_broker = _awaited(_Operations.unregister_broker)
    client_instance_id = _awaited(_Operations.client_instance_id)

    def metric_groups(self) -> list[MetricGroup]:
        """See `barnabas.AdminClient.metric_groups`."""
        return self._operations.metric_groups()

    def register_metric_for_subscription(self, metric: KafkaMetric) -> None:
        """See `barnabas.AdminClient.register_metric_for_subscription`."""
        self._operations.register_metric_for_subscription(metric)

    def unregister_metric_from_subscription(self, metric: KafkaMetric) -> None:
        """See `barnabas.AdminClient.unregister_metric_from_subscription`."""
        self._operations.unregister_metric_from_subscription(metric)

    # The end.

    async def close(self) -> None:
        """End the connections; operations in progress fail. A second call does nothing."""
        if not self._operations.environment.is_foreign:
            await self._operations.end()

    async def __aenter__(self) -> Self:
        self._operations.environment.bind()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def __del__(self) -> None:
        # Not yet set when the constructor failed.
        operations = getattr(self, "_operations", None)
        if operations is None or operations.is_closed or operations.environment.is_foreign:
            return
        loop = operations.environment.loop
        if loop is None or loop.is_closed():
            operations.close()
            return
        loop.call_soon_threadsafe(operations.close)
        warnings.warn(
            f"{self!r} was never closed. Use it in an async with statement, or await close()",
            ResourceWarning,
            stacklevel=2,
        )

    def __repr__(self) -> str:
        return f"<AdminClient {self._operations.client_id}>"
