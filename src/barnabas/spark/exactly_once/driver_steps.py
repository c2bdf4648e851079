"""The driver's side: takes the steps of `commit_batch` on a real cluster, through clients that outlive the batch."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from barnabas.client.admin.admin_client import AdminClient
from barnabas.errors import KafkaError
from barnabas.spark.client_cache import ClientCache
from barnabas.spark.client_settings import ClientSettings
from barnabas.spark.exactly_once import commit_protocol as protocol
from barnabas.spark.exactly_once import open_transactions as transactions
from barnabas.spark.exactly_once.decision import Decision, DecisionError
from barnabas.spark.exactly_once.decision_log import DecisionReader, DecisionWriter, log_end, settings_of
from barnabas.spark.exactly_once.repair import repair as repair_steps
from barnabas.spark.exactly_once.repair import sweep as sweep_steps


class SinkPlace(NamedTuple):
    """Where a query's sink is: the producers' settings, the log's topic, the prefix of all transactional ids."""

    client: tuple[tuple[str, str], ...]
    topic: str
    prefix: str

    def base(self, query: str) -> str:
        """Return what the query's transactional ids begin with."""
        return f"{self.prefix}-{query}"

    def tasks(self, query: str, run: str = "") -> str:
        """Return what the transactional ids of the query's tasks begin with, or of those of one run."""
        return f"{self.base(query)}-task-" + (f"{run}-" if run else "")

    def __repr__(self) -> str:
        return f"SinkPlace({ClientSettings(self.client)!r}, topic={self.topic!r}, prefix={self.prefix!r})"


class Driver:
    """Performs the steps of one query. Not for several threads."""

    def __init__(self, place: SinkPlace, query: str) -> None:
        self._place = place
        self._query = query
        self._client: Mapping[str, str] = dict(place.client)
        self._admin = AdminClient(settings_of("admin", self._client))
        self._open = transactions.OpenTransactions(self._admin)
        self._writer: DecisionWriter | None = None
        self._run = ""
        #: The batch that it has committed last; None before the first.
        self.batch: int | None = None
        self._decision: Decision | None = None
        self._mark: threading.Thread | None = None
        self._mark_error: Exception | None = None
        self._steps: dict[type[Any], Callable[[Any], Any]] = {
            protocol.TakeOver: lambda step: self.take_over(step.run),
            protocol.ListOpen: lambda step: self._open.now(place.tasks(query, step.run)),
            protocol.Describe: lambda step: transactions.describe(self._admin, step.transactional_ids),
            protocol.Record: lambda step: self._record(step.decision),
            protocol.EndAll: lambda step: transactions.end_all(self._admin, step.transactions, step.commit),
        }

    def perform(self, step: Any) -> Any:
        """See `StepPerformer`."""
        return self._steps[type(step)](step)

    def take_over(self, run: str) -> Decision | None:
        """Be the query's only driver, once for each of its runs, and know its last decision."""
        if self._writer is None or self._run != run:
            if self._writer is not None:
                with contextlib.suppress(KafkaError):
                    self._await_mark()
                self._writer.close()
            reader = DecisionReader(self._client, self._place.topic)
            with contextlib.closing(reader):
                self._writer = DecisionWriter(
                    self._client, self._place.topic, f"{self._place.base(self._query)}-driver"
                )
                self._run = run
                self._decision = reader.read(self._query, past=log_end(self._admin, self._place.topic))
        return self._decision

    def _record(self, decision: Decision) -> None:
        assert self._writer is not None, "take_over() comes first"
        self._await_mark()
        if self._decision is not None and decision == self._decision.completed():
            # It only spares the next start some questions, so the batch need not wait for it.
            mark = threading.Thread(target=self._write_mark, args=(self._writer, decision), daemon=True)
            mark.start()
            self._mark = mark
        else:
            self._writer.write(self._query, decision)
        self._decision = decision

    def _write_mark(self, writer: DecisionWriter, decision: Decision) -> None:
        try:
            writer.write(self._query, decision)
        except Exception as error:  # noqa: BLE001 - raised by the call that waits for the mark
            self._mark_error = error

    def _await_mark(self) -> None:
        mark, self._mark = self._mark, None
        if mark is not None:
            mark.join()
        error, self._mark_error = self._mark_error, None
        if error is not None:
            raise error

    def close(self) -> None:
        """Let go of all connections, once what is being written is; raises what that raised."""
        try:
            self._await_mark()
        finally:
            if self._writer is not None:
                self._writer.close()
            self._admin.close()


#: The drivers of this process that are not at work: Spark asks one process for one batch after the other.
_DRIVERS: ClientCache[Driver] = ClientCache(most_idle=4)


def take_over(place: SinkPlace, query: str, run: str) -> Decision | None:
    """Be the query's only driver before tasks of this run begin: see `protocol.take_over`."""
    found: Decision | None = _perform(place, query, protocol.take_over(run))
    return found


def sweep(place: SinkPlace, query: str, run: str) -> None:
    """Abort what is open and not decided before tasks of this run begin: see `repair.sweep`."""
    _perform(place, query, sweep_steps(run))


def commit(place: SinkPlace, batch: int, reports: Sequence[protocol.TaskReport]) -> Decision | None:
    """Commit a batch: see `commit_batch`."""
    if not reports:
        return None
    found: Decision | None = _perform(place, reports[0].query, protocol.commit_batch(batch, reports), batch)
    return found


def abort(place: SinkPlace, reports: Sequence[protocol.TaskReport | None]) -> None:
    """Abort what tasks have written: see `abort_batch`."""
    query = next((report.query for report in reports if report is not None), None)
    if query is not None:
        _perform(place, query, protocol.abort_batch(reports))


def abort_run(place: SinkPlace, query: str, run: str) -> None:
    """Abort what tasks of a run have written whose reports are lost: see `protocol.abort_run`."""
    _perform(place, query, protocol.abort_run(run))


def let_go(place: SinkPlace, query: str) -> None:
    """Close the connections for a query that has ended in this process."""
    _DRIVERS.discard((place, query))


def _perform(place: SinkPlace, query: str, steps: protocol.SinkSteps, batch: int | None = None) -> Any:
    key = place, query
    driver = _DRIVERS.acquire(key, lambda: Driver(place, query))
    if batch is not None and driver.batch is not None and batch != driver.batch + 1:
        # Where several queries run Spark asks any of its processes. Another one has committed what lies in between,
        # and with that has fenced this one and knows of a later decision.
        with contextlib.suppress(KafkaError):
            driver.close()
        driver = Driver(place, query)
    try:
        result = protocol.take_steps(steps, driver)
    except BaseException:
        # All that it knows may be wrong now.
        with contextlib.suppress(KafkaError):
            driver.close()
        raise
    if batch is not None:
        driver.batch = batch
    _DRIVERS.release(key, driver)
    return result


def repair(place: SinkPlace, query: str, choice: str | None) -> Decision | None:
    """Settle a query's last batch: see `repair.repair`.

    Raises DecisionError where nothing is known of such a query, and then has changed nothing on the cluster.
    """
    _check_known(place, query)
    driver = Driver(place, query)
    with contextlib.closing(driver):
        decision: Decision | None = protocol.take_steps(repair_steps(query, choice), driver)
        return decision


def _check_known(place: SinkPlace, query: str) -> None:
    client = dict(place.client)
    with contextlib.closing(DecisionReader(client, place.topic, create=False)) as reader:
        if reader.read(query) is not None:
            return
    with AdminClient(settings_of("admin", client)) as admin:
        if transactions.list_open(admin, place.tasks(query)):
            return
    raise DecisionError(
        f"nothing is known of a query {query!r}: {place.topic} holds no decision of it, and no transaction whose id "
        f"begins with {place.base(query)}-task- is open; check the id, the decision topic and the prefix"
    )
