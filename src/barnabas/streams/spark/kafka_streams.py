"""`KafkaStreams`: runs a topology as a streaming query of Spark. Source: Kafka's KafkaStreams."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from barnabas.client.admin.admin_client import AdminClient
from barnabas.clock import wall_clock_ms
from barnabas.errors import IllegalStateError
from barnabas.network.metric_group import Measured, MetricGroup
from barnabas.spark.exactly_once import driver_steps
from barnabas.streams.config import StreamsConfig
from barnabas.streams.durations import Duration, as_ms
from barnabas.streams.errors import StreamsError
from barnabas.streams.queries.store_view import StoreView
from barnabas.streams.sensor_statistics import metric_config
from barnabas.streams.spark import (
    group_offsets,
    internal_topics,
    starting_offsets,
    topology_memory,
    topology_shape,
)
from barnabas.streams.spark import query_plan as plan
from barnabas.streams.spark.application import Application, application_folder
from barnabas.streams.spark.batch_commits import BatchCommits, Staging
from barnabas.streams.spark.group_offsets import GroupOffsets
from barnabas.streams.spark.left_records import left_records
from barnabas.streams.spark.local_checkpoint import without_programs
from barnabas.streams.spark.pattern_topics import PatternTopics
from barnabas.streams.spark.slow_starts import SlowStarts
from barnabas.streams.spark.state_directory import remove_all
from barnabas.streams.spark.streams_metrics import ApplicationMetrics
from barnabas.streams.spark.task_dispatcher import TaskDispatcher, bind_address, placed_by_spark
from barnabas.streams.spark.task_measures import RestoreEvent, TaskMeasures
from barnabas.streams.spark.wall_clocks import WallClocks
from barnabas.streams.state_restore_listener import StateRestoreListener
from barnabas.streams.topology.topology import Topology

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

LOGGER = logging.getLogger("barnabas.streams")

_TURN = 0.1


class State(Enum):
    """What a `KafkaStreams` is doing; the names and steps are Kafka's."""

    CREATED = "CREATED"
    REBALANCING = "REBALANCING"
    RUNNING = "RUNNING"
    PENDING_SHUTDOWN = "PENDING_SHUTDOWN"
    NOT_RUNNING = "NOT_RUNNING"
    PENDING_ERROR = "PENDING_ERROR"
    ERROR = "ERROR"


class StreamThreadExceptionResponse(Enum):
    """What follows when the query has failed: it is started again, or the application ends."""

    REPLACE_THREAD = "REPLACE_THREAD"
    SHUTDOWN_CLIENT = "SHUTDOWN_CLIENT"


_NEXT = {
    State.CREATED: {State.REBALANCING, State.PENDING_SHUTDOWN},
    State.REBALANCING: {State.RUNNING, State.PENDING_SHUTDOWN, State.PENDING_ERROR},
    State.RUNNING: {State.REBALANCING, State.PENDING_SHUTDOWN, State.PENDING_ERROR},
    State.PENDING_SHUTDOWN: {State.NOT_RUNNING},
    State.NOT_RUNNING: set(),
    State.PENDING_ERROR: {State.ERROR},
    State.ERROR: {State.PENDING_SHUTDOWN},
}

StateListener = Callable[[State, State], object]
ExceptionHandler = Callable[[BaseException], StreamThreadExceptionResponse]


class KafkaStreams(Measured):
    """Runs a topology on Spark, exactly once.

    Settings are Kafka's, in a mapping or as keywords with underscores (`application_id="delays"`). State, output and
    positions are those of one checkpoint, at `checkpoint_location`: on a cluster a folder that all machines reach.
    `state.dir` is where each machine keeps the stores of its tasks, on a disk of its own; without
    `checkpoint_location` the checkpoint lies there, too. Records are processed exactly once with any
    `processing.guarantee`. A micro-batch has at most `max_records_per_batch` records, `trigger` says when there is
    one (Spark's keywords). Raises ConfigError for settings, TopologyError for topologies that do not run on Spark.
    """

    def __init__(
        self,
        topology: Topology,
        config: Mapping[str, Any] | None = None,
        *,
        spark: SparkSession,
        checkpoint_location: str | None = None,
        trigger: Mapping[str, Any] | None = None,
        max_records_per_batch: int = 1_000_000,
        **settings: Any,
    ) -> None:
        given = {**(config or {}), **{name.replace("_", "."): value for name, value in settings.items()}}
        self._config = StreamsConfig(given)
        self._topology = topology
        if type(spark).__module__.startswith("pyspark.sql.connect"):
            raise StreamsError(
                "KafkaStreams does not run on Spark Connect: it places processes on the executors through the "
                "SparkContext, which a remote session has none of; run the driver on the cluster, by spark-submit or "
                "SparkSession.builder.master(...)"
            )
        if not self._config.values["bootstrap.servers"]:
            raise StreamsError("setting bootstrap.servers is missing: set it to the brokers' addresses")
        self._spark = spark
        self._plan = plan.planned(topology, self._config)  # the start tells sources by pattern what there is
        self._checkpoint = checkpoint_location or str(application_folder(self._config) / "checkpoint")
        self._max_records = max_records_per_batch
        self._trigger = dict(trigger or {"processingTime": "0 seconds"})
        self._state = State.CREATED
        self._changed = threading.Condition(threading.RLock())
        self._goes_on = threading.Event()
        self._goes_on.set()
        self._listener: StateListener | None = None
        self._handler: ExceptionHandler = lambda error: StreamThreadExceptionResponse.SHUTDOWN_CLIENT
        self._query: StreamingQuery | None = None
        self._monitor: threading.Thread | None = None
        self._slow_starts = SlowStarts(self._config.application_id)
        self._exception: BaseException | None = None
        self._restore_listener = StateRestoreListener()
        self._metrics = ApplicationMetrics(self._config.application_id, time.monotonic, metric_config(self._config))

    # -- life

    def start(self) -> KafkaStreams:
        """Create the internal topics, and start the query; returns itself.

        Raises IllegalStateError unless it is CREATED, MissingSourceTopicError, TopologyError for topics that are not
        co-partitioned, StreamsError for internal topics that do not fit and for a missing topic of a global store,
        KafkaTimeoutError for internal topics that no broker tells of when the admin client's `request.timeout.ms` has
        passed.
        """
        with self._changed:
            if self._state is not State.CREATED:
                raise IllegalStateError(f"The client is either already started or already stopped ({self._state.name})")
            self._set(State.REBALANCING)
        try:
            self._application = self._prepared()
            self._dispatcher = self._new_dispatcher()
            self._clocks = WallClocks()
            try:
                self._start_query()
            except BaseException:
                self._dispatcher.close()
                self._clocks.close()
                raise
        except BaseException as error:
            self._exception = error
            self._set(State.PENDING_ERROR)
            self._set(State.ERROR)
            raise
        self._monitor = threading.Thread(target=self._watch, name=f"{self._config.application_id}-monitor", daemon=True)
        self._monitor.start()
        return self

    def close(self, timeout: Duration | None = None) -> bool:
        """Stop the query; returns whether it ended within `timeout` (timedelta or milliseconds, None waits for ever).

        A batch that is not finished is done again at the next start. May be called again, in any state. Raises what
        Spark raised when it was told to stop the query; the application has ended then, too.
        """
        deadline = None if timeout is None else time.monotonic() + as_ms(timeout, "timeout") / 1000
        with self._changed:
            if self._state is State.NOT_RUNNING:
                return True
            if self._state is not State.PENDING_SHUTDOWN:
                self._set(State.PENDING_SHUTDOWN)
        problem = self._stop_query()
        if self._monitor is not None and self._monitor is not threading.current_thread():
            self._monitor.join(None if deadline is None else max(0.0, deadline - time.monotonic()))
            if self._monitor.is_alive():
                return False
        self._set(State.NOT_RUNNING)
        if problem is not None:
            raise problem
        return True

    def pause(self) -> None:
        """Process nothing more, from the next batch on, until `resume()` (KIP-834); the state does not change.

        What is being computed is finished first. Before `start()` the application begins paused.
        """
        self._goes_on.clear()

    def resume(self) -> None:
        """Go on after `pause()`."""
        self._goes_on.set()

    def is_paused(self) -> bool:
        """Tell whether it was paused."""
        return not self._goes_on.is_set()

    def clean_up(self) -> None:
        """Delete what this machine keeps of the stores, below `state.dir`; the next start restores them.

        Output and positions stay as they are: those are of the checkpoint, which is not deleted. Raises
        IllegalStateError while it runs, `StreamsError` when another process has the state.
        """
        with self._changed:
            if self._state not in (State.CREATED, State.NOT_RUNNING, State.ERROR):
                raise IllegalStateError("Cannot clean up while running.")
            remove_all(application_folder(self._config))

    def __enter__(self) -> KafkaStreams:
        """Start unless it was started."""
        if self._state is State.CREATED:
            self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

    # -- asking

    @property
    def state(self) -> State:
        """What it is doing."""
        return self._state

    @property
    def exception(self) -> BaseException | None:
        """The error that ended the application."""
        return self._exception

    @property
    def query(self) -> StreamingQuery:
        """Spark's streaming query. Raises IllegalStateError before `start()`."""
        if self._query is None:
            raise IllegalStateError("there is no query before start()")
        return self._query

    def set_state_listener(self, listener: StateListener | None) -> None:
        """Call `listener(new, old)` at each change of the state. Raises IllegalStateError after `start()`."""
        self._check_created("Can only set StateListener before calling start()")
        self._listener = listener

    def set_uncaught_exception_handler(self, handler: ExceptionHandler) -> None:
        """Ask `handler(error)` what follows when the query fails. Raises IllegalStateError after `start()`."""
        self._check_created("Can only set UncaughtExceptionHandler before calling start()")
        self._handler = handler

    def set_global_state_restore_listener(self, listener: StateRestoreListener | None) -> None:
        """Tell `listener` how stores are restored. Raises IllegalStateError after `start()`."""
        self._check_created("Can only set GlobalStateRestoreListener before calling start()")
        self._restore_listener = listener or StateRestoreListener()

    def metric_groups(self) -> list[MetricGroup]:
        """Return the metrics under Kafka's names (KIP-444); see `Measured`.

        `client-state` is the place of the state among Kafka's: CREATED 0, REBALANCING 1, RUNNING 2, PENDING_SHUTDOWN 3,
        NOT_RUNNING 4, PENDING_ERROR 5, ERROR 6.
        """
        number = [*State].index(self._state)
        return self._metrics.groups(
            number, self._query is not None and self._state in (State.REBALANCING, State.RUNNING)
        )

    def wait_for(self, *states: State, timeout: float | None = None) -> bool:
        """Wait until it is in one of these states; returns whether it is, after at most `timeout` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: self._state in states, timeout)

    def store(self, name: str, *, timestamped: bool = False, max_staleness: float = 0.0) -> StoreView:
        """Return a view of a store, kept current from its changelog; close it when it is not needed any more.

        See `StoreView`. Raises UnknownStateStoreError, and StateStoreNotAvailableError before the first start.
        """
        client = plan.clients_of(self._config.values, "consumer")
        return StoreView.open(
            self._topology, self._config, name, client, timestamped=timestamped, max_staleness=max_staleness
        )

    # -- inside

    def _check_created(self, message: str) -> None:
        with self._changed:
            if self._state is not State.CREATED:
                raise IllegalStateError(f"{message}. Current state is: {self._state.name}")

    def _set(self, new: State) -> bool:
        with self._changed:
            old = self._state
            if new not in _NEXT[old]:
                return False
            self._state = new
            self._changed.notify_all()
        LOGGER.info("%s: State transition from %s to %s", self._config.application_id, old.name, new.name)
        if self._listener is not None:
            try:
                self._listener(new, old)
            except Exception:
                LOGGER.exception("%s: the state listener has failed", self._config.application_id)
        return True

    def _prepared(self) -> Application:
        """Make the topics, settle where to begin, and return what travels to the tasks."""
        values = self._config.values
        with AdminClient(plan.clients_of(values, "admin")) as admin:
            self._plan = plan.planned_on(admin, self._topology, self._config)
            existing = internal_topics.partition_counts(
                admin, self._plan.sources | self._plan.sinks | self._plan.global_topics
            )
            internal_topics.check_global_topics(self._plan.global_topics, existing)
            counts = internal_topics.counted(self._plan.infos, self._plan.copartitioned, existing)
            application = plan.application(self._plan, counts, existing, self._max_records)
            decided = partial(starting_offsets.decided_offsets, application.place)
            name, shape = self._config.application_id, topology_shape.shape_of(self._plan)
            stands = partial(starting_offsets.stands, admin, name, decided)
            before = topology_memory.checked(admin, application.place, self._config, shape, stands)
            internal_topics.create_internal_topics(admin, self._plan.infos, counts, values["replication.factor"])
            patience = float(plan.clients_of(values, "admin").get("request.timeout.ms", "30000")) / 1000
            told = partial(internal_topics.partition_counts, admin)
            internal_topics.await_internal_topics(told, self._plan.infos, counts, patience)
            default = values.get("consumer.auto.offset.reset") or values.get("auto.offset.reset") or "earliest"
            policies = starting_offsets.reset_policies(self._plan.subtopologies.values(), default)
            if not (Path(self._checkpoint) / "offsets").exists():
                starting_offsets.commit_missing(admin, name, counts.partitions, policies, decided, wall_clock_ms())
            elif before is not None:
                known = {*before.sources, *before.repartition}
                new = {topic: policy for topic, policy in policies.items() if topic not in known}
                starting_offsets.commit_new(admin, name, counts.partitions, new, wall_clock_ms())
            if before != shape:
                topology_memory.remember(application.place, name, shape)
        return application

    def _hear(self, task: str, said: TaskMeasures | RestoreEvent) -> None:
        """Take what a task tells beside its reports."""
        if isinstance(said, TaskMeasures):
            self._metrics.took(said)
            self._clocks.heard(task, said.clock_ms)
            return
        if said.what == "start":
            self._metrics.remains(task, said.store, said.end, said.end - said.start)
        else:
            self._metrics.restored(task, said.store, said.end if said.what == "batch" else None)
        try:
            said.tell(self._restore_listener)
        except Exception:
            LOGGER.exception("the restore listener has failed")

    def _new_dispatcher(self) -> TaskDispatcher:
        from pyspark import cloudpickle

        context = self._spark.sparkContext
        pickled: bytes = cloudpickle.dumps(self._application)  # type: ignore[no-untyped-call]  # lambdas go by value
        most = int(context.getConf().get("spark.task.maxFailures", "4") or 4)
        place = placed_by_spark(context, pickled)
        return TaskDispatcher(self._config.application_id, place, bind_address(context), most, self._hear)

    def _staging(self) -> Staging:
        levels = self._application.levels
        if not self._application.is_within or not levels.inner:
            return Staging(levels)
        make_admin = group_offsets.admin_of(plan.clients_of(self._config.values, "admin"))
        return Staging(levels, partial(left_records, make_admin, self._config.application_id, levels))

    def _start_query(self) -> None:
        from barnabas.streams.spark.data_source import data_source

        found = data_source(self._application, self._clocks.path)
        self._spark.dataSource.register(found)
        place, staging = self._application.place, self._staging()
        batches = self._batches = BatchCommits(place, self._dispatcher.run, staging, self._metrics.committed)
        batches.goes_on = self._goes_on
        writer = self._spark.readStream.format(found.name()).load().writeStream.foreachBatch(self._batches)
        writer = writer.queryName(self._config.application_id).option("checkpointLocation", self._checkpoint)
        with without_programs(self._spark, self._checkpoint):
            query = self._query = writer.trigger(**self._trigger).start()
        batches.is_wanted = lambda: bool(query.isActive)

    def _watch(self) -> None:
        """Follow the query until it ends, in a thread of its own."""
        with contextlib.ExitStack() as stack:
            stack.callback(lambda: self._set(State.NOT_RUNNING))  # unless it is in ERROR
            stack.callback(lambda: self._dispatcher.close(self._batches.decided))
            stack.callback(lambda: self._clocks.close())
            try:
                self._watch_to_the_end()
            except Exception as error:
                # Without this thread nothing would tell how the query ends, nor start it again.
                name = self._config.application_id
                LOGGER.exception("%s: the application ends, for it cannot be watched any more", name)
                self._fail(error)
                if (problem := self._stop_query()) is not None:
                    LOGGER.error("%s: Spark did not stop the query: %s", name, problem)

    def _stop_query(self) -> Exception | None:
        try:
            if self._query is not None:
                self._query.stop()
        except Exception as error:  # noqa: BLE001 - Spark's JVM may be gone, and Py4J says so in many ways
            return error
        return None

    def _watch_to_the_end(self) -> None:
        values = self._config.values
        make_admin = group_offsets.admin_of(plan.clients_of(values, "admin"))
        purge_every = values["repartition.purge.interval.ms"] / 1000
        offsets = GroupOffsets(make_admin, self._config.application_id, self._plan.repartition_topics, purge_every)
        look_every = int(plan.clients_of(values, "consumer").get("metadata.max.age.ms", 300_000)) / 1000
        self._pattern_topics = PatternTopics(make_admin, look_every)
        with contextlib.ExitStack() as stack:
            for each in (offsets, self._pattern_topics):
                stack.enter_context(contextlib.closing(each))
            self._follow(offsets)
            decided = partial(starting_offsets.decided_offsets, self._application.place)
            offsets.commit_decided(decided, str(self.query.id))
            driver_steps.let_go(self._application.place, str(self.query.id))

    def _follow(self, offsets: GroupOffsets) -> None:
        while True:
            query = self.query
            self._follow_query(query, offsets)
            if self._state in (State.PENDING_SHUTDOWN, State.ERROR):
                return
            if query is not self.query:
                continue
            error: BaseException | None = query.exception()
            if error is not None and self._batches.error is not None:
                error = self._batches.error
            if error is None:
                # A trigger that ends by itself.
                self._set(State.RUNNING)
                self._set(State.PENDING_SHUTDOWN)
                return
            if not self._started_again(query, error) and not self._replaced(error):
                return

    def _follow_query(self, query: StreamingQuery, offsets: GroupOffsets) -> None:
        follow = partial(offsets.follow, query, lambda: self._batches.standing)
        while query.isActive:
            if self._state is State.PENDING_SHUTDOWN:
                query.stop()  # it may have been started while `close()` stopped the one before
            elif self._state is State.REBALANCING and _has_begun(query):
                self._set(State.RUNNING)
            elif self._pattern_topics.have_come(self._plan):
                query.stop()
                follow()
                self._begin_again()
                return
            follow()
            time.sleep(_TURN)
        follow()

    def _begin_again(self) -> None:
        """Go on from the checkpoint, with the topics that have appeared and that a pattern matches."""
        LOGGER.info("%s: topics have appeared that a pattern matches", self._config.application_id)
        if not self._set(State.REBALANCING):
            return
        self._dispatcher.close(self._batches.decided)
        try:
            self._application = self._prepared()
            self._dispatcher = self._new_dispatcher()
            self._start_query()
        except Exception as error:
            LOGGER.exception("%s: it cannot go on with new topics", self._config.application_id)
            self._fail(error)

    def _started_again(self, query: StreamingQuery, error: BaseException) -> bool:
        has_begun = query.lastProgress is not None or self._state is not State.REBALANCING
        delay = self._slow_starts.delay(error, has_begun=has_begun)
        if delay is None:
            return False
        LOGGER.warning(
            "%s: Spark was too slow to start a worker; the query is started again in %.1f s", query.name, delay
        )
        if not self.wait_for(State.PENDING_SHUTDOWN, timeout=delay):
            self._start_query()
        return True

    def _replaced(self, error: BaseException) -> bool:
        LOGGER.error("%s: the query has failed: %s", self._config.application_id, error)
        self._metrics.failed += 1
        try:
            response = self._handler(error)
        except Exception:
            LOGGER.exception("the uncaught exception handler has failed")
            response = StreamThreadExceptionResponse.SHUTDOWN_CLIENT
        if response is StreamThreadExceptionResponse.REPLACE_THREAD and self._state is not State.PENDING_SHUTDOWN:
            self._set(State.REBALANCING)
            self._start_query()
            return True
        self._fail(error)
        return False

    def _fail(self, error: BaseException) -> None:
        self._exception = error
        self._set(State.PENDING_ERROR)
        self._set(State.ERROR)


def _has_begun(query: StreamingQuery) -> bool:
    return query.lastProgress is not None or "Waiting" in str(query.status["message"])
