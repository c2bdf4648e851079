"""What all operations of an admin client stand on: its network, and the way an operation is carried out."""

from __future__ import annotations

import inspect
import itertools
import math
import os
import threading
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, cast

from barnabas.client.admin.admin_api_driver import AdminApiDriver, Retrying
from barnabas.client.admin.admin_api_handler import AdminApiHandler, K, V
from barnabas.client.admin.admin_metadata import AdminMetadata
from barnabas.client.admin.cluster import all_brokers
from barnabas.client.admin.results import Results
from barnabas.client.admin.wrong_arguments import explained
from barnabas.client.arguments import as_seconds
from barnabas.client.environment import Environment
from barnabas.client.forked import refusal
from barnabas.client.metadata import MetadataRefresh
from barnabas.client.steps import Steps, run
from barnabas.client.telemetry.reports_telemetry import ReportsTelemetry, last_push
from barnabas.config.client_config import ClientConfig
from barnabas.errors import (
    IllegalStateError,
    KafkaError,
    UnsupportedEndpointTypeError,
)
from barnabas.network.exponential_backoff import ExponentialBackoff
from barnabas.network.log_context import client_logger
from barnabas.network.metric_group import Measured, MetricGroup, with_app_info
from barnabas.network.network_metrics import network_metrics, node_metrics

if TYPE_CHECKING:
    from barnabas.config.typed_settings import AdminSettings

T = TypeVar("T")
log = client_logger("barnabas.admin")

SERVED_BY_CONTROLLERS = frozenset(
    {
        "add_raft_voter",
        "alter_partition_reassignments",
        "create_acls",
        "delete_acls",
        "describe_acls",
        "describe_cluster",
        "describe_configs",
        "describe_features",
        "describe_metadata_quorum",
        "incremental_alter_configs",
        "list_partition_reassignments",
        "remove_raft_voter",
        "unregister_broker",
        "update_features",
    }
)
"""What an admin client can do with `bootstrap.controllers` (KIP-919), the same as in Java."""

# Seconds that a call of another thread has to notice that the client is closed.
_LAST_TURN = 1.0
_FORKED = refusal("admin client")
_numbers = itertools.count(1)


class AdminOperations(ReportsTelemetry, Measured):
    """The ground of `AdminClient`; the operations themselves are in the classes that derive from this one.

    An operation is written as steps (see `Steps`), and a public method does nothing after `_complete` or `_run`, so
    that a client on an event loop needs no more than a `_complete` of its own.
    """

    def __init_subclass__(cls) -> None:
        """Have every operation name its arguments where they are wrong."""
        super().__init_subclass__()
        for name, operation in list(vars(cls).items()):
            if inspect.isfunction(operation) and not name.startswith("_"):
                setattr(cls, name, explained(operation))

    def __init__(
        self,
        configs: Mapping[str, Any] | None = None,
        /,
        *,
        environment: Environment | None = None,
        **settings: Unpack[AdminSettings],
    ) -> None:
        self._environment = environment = environment or Environment()
        self._clock = environment.clock
        self._config = config = ClientConfig("admin", configs, cast("Mapping[str, Any]", settings))
        self._client_id = config.get_str("client.id") or f"adminclient-{next(_numbers)}"
        self._metadata = AdminMetadata(
            MetadataRefresh.of(config, environment.random),
            uses_controllers=config.bootstrap_setting == "bootstrap.controllers",
        )
        self._backoff = ExponentialBackoff(
            config.get_seconds("retry.backoff.ms"), config.get_seconds("retry.backoff.max.ms"), environment.random
        )
        self._client = environment.network_client(config, self._client_id, self._metadata)
        self._report_telemetry(
            config, self.metric_groups, self._telemetry_labels, self._client,
            random=environment.random, wall_clock_ms=environment.wall_clock_ms,
        )  # fmt: skip
        self._started_at_ms = environment.wall_clock_ms()
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._is_closed = False

    def metric_groups(self) -> list[MetricGroup]:
        """All that is counted, in Kafka's groups: `admin-client-metrics`, and `admin-client-node-metrics` by node.

        Sizes are in bytes, times in milliseconds. May be called from any thread.
        """
        now, network = self._clock(), [self._client.metrics]
        groups = [
            MetricGroup("admin-client-metrics", {}, network_metrics(network, now)),
            *node_metrics("admin-client-node-metrics", network, now),
        ]
        return with_app_info(groups, self._started_at_ms)

    def _telemetry_labels(self) -> dict[str, str | None]:
        return {}

    # Steps.

    def _ask(self, handler: AdminApiHandler[K, V], keys: Iterable[K], deadline: float) -> Steps[Results[K, V]]:
        """Carry out an operation for all keys; return what became of each."""
        refusal = self._refusal(handler.name)
        if refusal is not None:
            return Results({}, dict.fromkeys(keys, refusal))
        retrying = Retrying(self._backoff, deadline, self._config.get_int("retries"))
        driver = AdminApiDriver(handler, keys, self._client, self._metadata, retrying)
        while not driver.is_done:
            self._ensure_open()
            now = self._clock()
            wait = driver.tick(now)
            if not driver.is_done:
                self._client.poll(wait, now)
                self._metadata.raise_fatal_error()
                if not driver.is_done:
                    yield None
        return driver.results()

    def _ask_one(self, handler: AdminApiHandler[K, V], key: K, deadline: float) -> Steps[V]:
        """Carry out an operation for one key; raises what made it fail."""
        results = yield from self._ask(handler, [key], deadline)
        return results[key]

    def _refusal(self, operation: str) -> KafkaError | None:
        if not self._metadata.uses_controllers or operation in SERVED_BY_CONTROLLERS:
            return None
        return UnsupportedEndpointTypeError(
            f"{operation} is not offered by controllers, to which bootstrap.controllers leads; "
            "an admin client with bootstrap.servers can do it"
        )

    def _all_brokers(self, deadline: float) -> Steps[list[int]]:
        """Return the ids of all brokers as they are now; what the client knows of them may be minutes old."""
        nodes = yield from self._ask_one(all_brokers(), "the brokers of the cluster", deadline)
        if any(self._metadata.fetch().node(node.id) != node for node in nodes):
            self._metadata.request_update()
        return [node.id for node in nodes]

    def _ask_all_brokers(
        self, handler: AdminApiHandler[int, V], timeout: float | None, raise_errors: bool
    ) -> Steps[Results[int, V]]:
        """Ask every broker, by its id."""
        refusal = self._refusal(handler.name)
        if refusal is not None:
            raise refusal
        deadline = self._deadline(timeout)
        brokers = yield from self._all_brokers(deadline)
        results = yield from self._ask(handler, brokers, deadline)
        return checked(results, raise_errors)

    def _operation(
        self, handler: AdminApiHandler[K, V], keys: Iterable[K], timeout: float | None, raise_errors: bool
    ) -> Steps[Results[K, V]]:
        results = yield from self._ask(handler, keys, self._deadline(timeout))
        return checked(results, raise_errors)

    def _operation_in_parts(
        self,
        handler: AdminApiHandler[str, Mapping[K, KafkaError | None]],
        key: str,
        timeout: float | None,
        raise_errors: bool,
    ) -> Steps[Results[K, None]]:
        """One request whose response has an error, or None, for each of its parts."""
        outcomes = yield from self._ask_one(handler, key, self._deadline(timeout))
        values = {part: None for part, error in outcomes.items() if error is None}
        errors = {part: error for part, error in outcomes.items() if error is not None}
        return checked(Results(values, errors), raise_errors)

    # Running them.

    def _complete(self, steps: Steps[T]) -> T:
        """Run steps in this thread, once no other thread does; every public operation ends here."""
        if self._is_foreign:
            raise IllegalStateError(_FORKED)
        with self._lock:
            try:
                return run(steps)
            finally:
                if self._is_closed:
                    # By another thread, which has not waited for this one.
                    self._client.close()

    def _run(
        self, handler: AdminApiHandler[K, V], keys: Iterable[K], timeout: float | None, raise_errors: bool
    ) -> Results[K, V]:
        return self._complete(self._operation(handler, keys, timeout, raise_errors))

    def _run_one(self, handler: AdminApiHandler[K, V], key: K, timeout: float | None) -> V:
        return self._complete(self._ask_one(handler, key, self._deadline(timeout)))

    def _done(self, handler: AdminApiHandler[K, Any], key: K, timeout: float | None) -> None:
        """Carry out an operation for its own sake; what is returned may have to be awaited, so it must be returned."""
        return self._run_one(handler, key, timeout)  # type: ignore[no-any-return]

    def _run_in_parts(
        self,
        handler: AdminApiHandler[str, Mapping[K, KafkaError | None]],
        key: str,
        timeout: float | None,
        raise_errors: bool,
    ) -> Results[K, None]:
        return self._complete(self._operation_in_parts(handler, key, timeout, raise_errors))

    @property
    def _is_foreign(self) -> bool:
        # The connections are the parent's, and so is the lock, which no thread may be left to release.
        return self._owner != os.getpid()

    def _ensure_open(self) -> None:
        if self._is_closed:
            raise IllegalStateError(f"{self._client_id}: the admin client is closed")

    def _deadline(self, timeout: float | None) -> float:
        if timeout is None:
            return self._clock() + self._config.get_seconds("default.api.timeout.ms")
        return self._clock() + as_seconds(timeout)

    def close(self, timeout: float | None = None) -> None:
        """End the connections. A second call does nothing.

        A call that another thread is in may take as long as it needs, or `timeout` seconds if given; then it fails.
        Where even that takes too long, this returns, and the connections end with that call.
        """
        if timeout is not None:
            timeout = as_seconds(timeout)
        if self._is_foreign:
            return
        if not self._lock.acquire(timeout=-1 if timeout is None else timeout):
            self._is_closed = True
            self._client.wakeup()
            if not self._lock.acquire(timeout=_LAST_TURN):
                log.warning("%s: closed while another thread is in a call, which ends later", self._client_id)
                return
        try:
            if not self._is_closed:
                run(self._last_push(math.inf if timeout is None else timeout))
            self._close_connections()
        finally:
            self._lock.release()

    def _last_push(self, timeout: float = math.inf) -> Steps[None]:
        return last_push(self._telemetry, self._client.poll, self._clock, self._clock() + timeout)

    def _close_connections(self) -> None:
        self._is_closed = True
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def checked(results: Results[K, V], raise_errors: bool) -> Results[K, V]:
    """Return the results; raises their errors if asked to."""
    if raise_errors:
        results.raise_errors()
    return results
