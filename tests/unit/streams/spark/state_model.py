"""Tasks with states around the exactly-once sink, on a broker in memory whose transactions end late.

A task counts keys. Each update is written to the output and to the changelog of its partition, with a number that is
drawn anew whenever it is computed (user code is not deterministic) and with the number of the update before. So a
reader can tell whether output, changelog and the state that was computed from are one story.
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2] / "spark"))

from barnabas.errors import KafkaError
from barnabas.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from barnabas.protocol.messages.end_txn_request import EndTxnRequest
from barnabas.protocol.messages.end_txn_response import EndTxnResponse
from barnabas.protocol.messages.init_producer_id_request import InitProducerIdRequest
from barnabas.records import RecordBatchBuilder, read_batches
from barnabas.records.decoder import decode_records
from barnabas.spark.exactly_once import commit_protocol as protocol
from barnabas.spark.exactly_once.decision import COMPLETE, Decision, TaskState
from barnabas.streams.spark import batch_protocol, state_protocol
from tests.support.core_broker import START_MS, create, fetch, produce
from tests.unit.spark.exactly_once import exactly_once_model as model

#: How likely the driver loses sight of an attempt at each of its requests, and how many of a task it begins.
LOSS, ATTEMPTS = 0.02, 4

CHANGELOG = "app-counts-changelog"
TASKS = 2
DRIVER_TIMEOUT_MS = 10_000
KEYS = ("a", "b", "c")

#: A key that a computation updates or not, by chance: what two computations of a batch change is not the same.
SOMETIMES = "sometimes"


class Cluster(model.Cluster):
    """A broker that answers EndTxn before it has written the markers, as Apache Kafka does."""

    def __init__(self, lag: int = 0) -> None:
        super().__init__()
        self.client.request(create(CHANGELOG, TASKS), 7)
        self.lag = lag
        self._late: list[tuple[int, Any, int]] = []
        self._requests = 0

    def request(self, message: Any, version: int) -> Any:
        self._requests += 1
        name = getattr(message, "transactional_id", None)
        self.end_late(lambda due, late: due <= self._requests or late.transactional_id == name)
        if isinstance(message, EndTxnRequest) and message.committed and self.lag and self._is_open(message):
            self._late.append((self._requests + self.lag, message, version))
            return EndTxnResponse(error_code=0)
        return super().request(message, version)

    def _is_open(self, message: EndTxnRequest) -> bool:
        """Whether the broker would commit it: what it refuses it refuses at once."""
        asked = DescribeTransactionsRequest(transactional_ids=[message.transactional_id])
        (state,) = super().request(asked, 0).transaction_states
        is_same = (state.producer_id, state.producer_epoch) == (message.producer_id, message.producer_epoch)
        return is_same and state.transaction_state == "Ongoing"

    def end_late(self, is_due: Any = lambda due, late: True) -> None:
        due = [entry for entry in self._late if is_due(entry[0], entry[1])]
        self._late = [entry for entry in self._late if entry not in due]
        for _, message, version in due:
            super().request(message, version)

    def advance(self, seconds: float) -> None:
        self._requests += 1
        self.end_late(lambda due, late: due <= self._requests)
        super().advance(max(seconds, 0.1))

    def crash(self) -> None:
        self.end_late()  # the coordinator has them in its log
        super().crash()

    def stable(self, topic: str, partition: int) -> tuple[list[Any], int, int]:
        """Return the committed records, where what is stable ends, and the end of the log."""
        found: list[Any] = []
        offset = 0
        while True:
            message = fetch(topic, offset, partition, partition_max_bytes=1 << 24, isolation_level=1)
            (answer,) = model.Cluster.request(self, message, 12).responses[0].partitions
            if not answer.records:
                return found, answer.last_stable_offset, answer.high_watermark
            aborted = [(each.producer_id, each.first_offset) for each in answer.aborted_transactions or ()]
            found += decode_records(answer.records, topic, partition, offset, aborted_transactions=aborted)
            offset = max(batch.next_offset for batch in read_batches(answer.records))


class Update(NamedTuple):
    """One update of a key: which, drawn as what, after which."""

    key: str
    count: int
    drawn: int
    before: int
    read: int = 0  #: What was drawn for the record that was read, where an earlier stage has drawn one.


def inputs(batch: int, task: int) -> list[str]:
    """Return the keys that a task reads in a batch, always the same; task 1 has none in every third."""
    if task == 1 and batch % 3 == 1:
        return []
    return [KEYS[(batch * 2 + task + number) % len(KEYS)] for number in range(2)]


def changelog_of(name: str) -> str:
    """Return the changelog topic of a task's sub-topology."""
    stage = name.partition("_")[0]
    return CHANGELOG if stage == "0" else f"app-stage-{stage}-changelog"


def changelog_end(name: str, state: TaskState | None) -> int | None:
    """Return the last offset of its changelog that a task has written, as this state tells."""
    return None if state is None else state.ends.get(changelog_of(name), {}).get(name.partition("_")[2])


class Held(state_protocol.HeldTask):
    """A task in a process, with its store, and up to which offset of its changelog the store has it."""

    def __init__(self) -> None:
        super().__init__()
        self.store: dict[str, Update] = {}
        self.position = 0


class Kept(NamedTuple):
    """What a disk holds of a task."""

    store: dict[str, Update]
    position: int


class Process:
    """A process with tasks and ids of its own; `name` is unique. Its disk may be that of a process before it."""

    def __init__(self, name: str, seed: int = 0, disk: dict[str, Kept] | None = None) -> None:
        self.name = name
        self.disk = {} if disk is None else disk
        self.read = 0
        self.workers: list[model.Worker] = []
        self.made = 0
        self.held: dict[str, Held] = {}
        self.random = random.Random(f"{name}-{seed}")
        self.restores = 0

    def take_worker(self) -> model.Worker:
        """Take a worker that no other attempt uses."""
        self.made += not self.workers
        return self.workers.pop() if self.workers else model.Worker(f"{self.name}.{self.made}")

    def keep(self, name: str, held: Held, state: TaskState | None) -> None:
        """Let the disk have a task as it is, after this state."""
        end = changelog_end(name, state)
        if end is not None:
            held.position = end + 1
        self.disk[name] = Kept(dict(held.store), held.position)

    def end(self, decision: Decision | None) -> None:
        """A driver that knows this decision closes the application: keep what it tells, and forget the rest."""
        states = {} if decision is None else decision.states_after()
        for name, held in self.held.items():
            for step in state_protocol.end_task(held, states.get(name)):
                self.keep(name, held, step.state)
        self.held.clear()

    def take(self, name: str) -> Held:
        """Take a task out of the process: no two attempts work on it at the same time."""
        return self.held.pop(name, None) or Held()


def last_decision(cluster: Cluster) -> tuple[Decision | None, int]:
    """Return the last committed decision, and where what is stable of the log ends."""
    records, stable, _ = cluster.stable(model.LOG, 0)
    found = [record.value for record in records if record.key == model.QUERY.encode()]
    return Decision.decode(found[-1]) if found else None, stable


class EnginePerformer:
    """Takes the steps of `state_protocol` for one attempt."""

    def __init__(self, cluster: Cluster, process: Process, batch: int, task: int, stage: int = 0) -> None:
        self.cluster = cluster
        self.process = process
        self.batch = batch
        self.task = task
        self.name = f"{stage}_{task}"
        self.held = process.take(self.name)
        self.random = process.random
        self.updates: list[Update] = []
        self.note = ""
        self.decision: Decision | None = None

    def ReadDecision(self, least: int) -> model.Requests:
        _, _, end = self.cluster.stable(model.LOG, 0)
        while True:
            yield None
            decision, stable = last_decision(self.cluster)
            if stable >= end or (decision is not None and decision.batch >= least):
                self.decision = decision
                return decision

    def Restore(self, state: TaskState | None) -> model.Requests:
        self.process.restores += 1
        kept = self.process.disk.get(self.name, Kept({}, 0))
        target = changelog_end(self.name, state)
        records, stable, _ = self.cluster.stable(changelog_of(self.name), self.task)
        while target is not None and stable <= target:
            yield None
            records, stable, _ = self.cluster.stable(changelog_of(self.name), self.task)
        yield None
        self.held.store = dict(kept.store)
        self.held.position = stable if target is None else target + 1
        for record in records:
            if kept.position <= record.offset < self.held.position:
                self.process.read += 1
                self.held.store[record.key.decode()] = Update(*json.loads(record.value))

    def Keep(self, state: TaskState | None) -> model.Requests:
        yield from ()
        self.process.keep(self.name, self.held, state)

    def reads(self) -> model.Requests:
        """Read the batch's records; gives key and number of each."""
        yield from ()
        return [(key, 0) for key in inputs(self.batch, self.task)]

    def Compute(self) -> model.Requests:
        records = yield from self.reads()
        for key, read in [*records, *self.random.choice(([], [(SOMETIMES, 0)]))]:
            before = self.held.store.get(key, Update(key, 0, 0, 0))
            update = Update(key, before.count + 1, self.random.getrandbits(60), before.drawn, read)
            self.held.store[key] = update
            self.updates.append(update)
            yield None
        self.note = f"{self.batch}-{self.random.getrandbits(60)}"
        return self.note


class SinkPerformer(model.TaskPerformer):
    """Writes the updates to output and changelog, and tells where the changelog ends."""

    def __init__(self, cluster: Cluster, engine: EnginePerformer) -> None:
        super().__init__(cluster, {})
        self._engine = engine

    def ReadDecision(self) -> model.Requests:
        known = self._engine.decision
        if known is not None and known.batch == self._engine.batch - 1 and known.state == COMPLETE:
            return known
        yield None
        return last_decision(self._engine.cluster)[0]

    def WriteRows(self, name: str, producer_id: int, epoch: int) -> model.Requests:
        engine, ends = self._engine, {}
        values = [json.dumps(update).encode() for update in engine.updates]
        keys = [update.key.encode() for update in engine.updates]
        for topic in (model.TOPIC, CHANGELOG):
            base = yield from _write(topic, engine.task, keys, values, name, (producer_id, epoch))
            ends[topic] = base + len(values) - 1
        state = TaskState(f"0_{engine.task}", engine.note, {CHANGELOG: {str(engine.task): ends[CHANGELOG]}})
        return 2 * len(values), {topic: [engine.task] for topic in ends}, state


def _write(topic: str, partition: int, keys: Any, values: Any, name: str, identity: Any) -> model.Requests:
    builder = RecordBatchBuilder(1 << 16)
    for key, value in zip(keys, values, strict=True):
        builder.try_append(START_MS, key, value, [])
    builder.set_producer_state(*identity, 0, transactional=True)
    message = produce(topic, bytes(builder.close()), partition)
    message.transactional_id = name
    answer, code = yield from model._ask(message, 12, lambda answer: _of(answer).error_code)
    model._check(code)
    return _of(answer).base_offset


def _of(answer: Any) -> Any:
    return answer.responses[0].partition_responses[0]


def attempt(cluster: Cluster, process: Process, run: str, batch: int, task: int) -> model.Requests:
    """One attempt of one task: the engine, then the sink; returns the report."""
    identity = protocol.Task(model.QUERY, run, batch, task)
    if not inputs(batch, task):
        return protocol.TaskReport(*identity)
    engine = EnginePerformer(cluster, process, batch, task)
    return (yield from compute_and_write(identity, engine, SinkPerformer(cluster, engine)))


def compute_and_write(identity: protocol.Task, engine: EnginePerformer, sink: SinkPerformer) -> model.Requests:
    """An attempt that has something to read."""
    process, task = engine.process, state_protocol.TaskBatch(engine.name, identity.batch, identity.partition)
    try:
        computed = yield from model.drive(state_protocol.run_task(task, engine.held), engine)
    finally:
        process.held[engine.name] = engine.held
    if not computed:
        return protocol.TaskReport(*identity, was_decided=True)
    worker = process.take_worker()
    try:
        writing = protocol.write_task(identity, worker.pool(identity.run), engine.cluster.broker.now)
        return (yield from model.drive(writing, sink))
    finally:
        process.workers.append(worker)


class Driver(model.DriverPerformer):
    """A driver whose own transactions are short, as the real one's are."""

    #: Whether it marks a decision as complete before it goes on; the real one does not wait for that.
    has_marks = True

    def TakeOver(self, run: str) -> model.Requests:
        if self._identity is None:
            name = f"{model.BASE}-driver"
            message = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=DRIVER_TIMEOUT_MS)
            answer, code = yield from model._ask(message, 5, lambda answer: answer.error_code)
            model._check(code)
            self._identity = answer.producer_id, answer.producer_epoch
            _, _, end = self._cluster.stable(model.LOG, 0)
            stable = -1
            while stable < end:
                yield None
                self._decision, stable = last_decision(self._cluster)
        return self._decision

    def Record(self, decision: Decision) -> model.Requests:
        if not self.has_marks and self._decision is not None and decision == self._decision.completed():
            self._decision = decision  # a thread writes it, some time or never
            yield None
        else:
            yield from super().Record(decision)


class Handle:
    """A process of the simulation, which does one request a turn; an error of the cluster's or its own ends it."""

    def __init__(self, requests: model.Requests) -> None:
        self._requests = requests
        self.is_done = False
        self.failed: KafkaError | None = None
        self.result: Any = None
        self._pending: Any = None
        self._is_started = False

    def request(self) -> Any:
        """Return the request that is to be sent; None where it only waits."""
        if not self._is_started:
            self._is_started = True
            self._step(lambda: next(self._requests))
        return self._pending

    def take(self, answer: Any) -> None:
        """Take the answer, and go on to the next request."""
        if not self.is_done:
            self._step(lambda: self._requests.send(answer))

    def _step(self, go: Callable[[], Any]) -> None:
        try:
            self._pending = go()
        except StopIteration as ended:
            self.is_done, self.result = True, ended.value
        except KafkaError as error:
            self.is_done, self.failed = True, error

    def turn(self, cluster: Cluster) -> None:
        request = self.request()
        if not self.is_done:
            self.take(cluster.advance(0.02) if request is None else cluster.request(*request))


class BatchPerformer:
    """Takes the steps of `batch_protocol`: attempts take turns, and now and then the driver loses sight of one.

    Such an attempt goes on in `ghosts`, where it is given up or comes to its end at any later time.
    """

    def __init__(self, start: Callable[[Process, str], model.Requests], processes: list[Process], choose: random.Random,
                 ghosts: list[Handle] | None) -> None:  # fmt: skip
        self._start = start
        self._processes = processes
        self._choose = choose
        self._ghosts = ghosts
        self._placed: dict[str, Process] = {}
        self._working: dict[tuple[str, int], Handle] = {}

    def Place(self, tasks: tuple[str, ...]) -> model.Requests:
        yield None
        self._placed |= {task: self._choose.choice(self._processes) for task in tasks}

    def Start(self, task: str, attempt: int) -> model.Requests:
        yield from ()
        self._working[task, attempt] = Handle(self._start(self._placed[task], task))

    def Await(self) -> model.Requests:
        while True:
            task, attempt = self._choose.choice(sorted(self._working))
            handle = self._working[task, attempt]
            if self._ghosts is not None and self._choose.random() < LOSS:
                self._ghosts.append(self._working.pop((task, attempt)))
                return batch_protocol.Outcome(task, attempt, None)
            request = handle.request()
            handle.take((yield request) if not handle.is_done else None)
            if handle.failed is not None:
                raise handle.failed
            if handle.is_done:
                del self._working[task, attempt]
                return batch_protocol.Outcome(task, attempt, handle.result)

    def all_lost(self) -> None:
        """The batch has failed: what works on it is not heard any more."""
        if self._ghosts is not None:
            self._ghosts += self._working.values()


def query(
    cluster: Cluster,
    checkpoint: model.Checkpoint,
    run: str,
    batches: int,
    processes: list[Process],
    choose: random.Random,
    ghosts: list[Handle] | None = None,
    known: list[Decision] | None = None,
) -> model.Requests:
    """A run of the query: tasks land in any process, batch after batch. Kill it by not going on.

    With `ghosts` processes of tasks are lost, and what they do goes on there. `known` are the decisions that drivers
    have come to know of by their commits.
    """
    driver = Driver(cluster)
    if checkpoint.committed < batches - 1:
        yield from model.drive(protocol.take_over(run), driver)
    for batch in range(checkpoint.committed + 1, batches):

        def start(process: Process, task: str, batch: int = batch) -> model.Requests:
            return attempt(cluster, process, run, batch, int(task))

        tasks = BatchPerformer(start, processes, choose, ghosts)
        try:
            reports = yield from model.drive(batch_protocol.run_batch([*map(str, range(TASKS))], ATTEMPTS), tasks)
        except KafkaError:
            tasks.all_lost()
            yield from model.drive(protocol.abort_run(run), driver)
            raise
        decision = yield from model.drive(protocol.commit_batch(batch, reports), driver)
        if known is not None and decision is not None:
            known.append(decision)
        checkpoint.commit(batch)


def wait_until_stable(cluster: Cluster, partitions: list[tuple[str, int]]) -> None:
    """Let what a zombie has left open time out; till then readers wait before it."""
    cluster.end_late()
    cluster.advance(0.1)
    for _ in range(30):
        if all(stable == end for place in partitions for _, stable, end in [cluster.stable(*place)]):
            break
        cluster.advance(model.TIMEOUT_MS / 20_000)


def broken_stories(updates: list[Update]) -> list[str]:
    """Return of which keys the updates do not follow one another."""
    found = []
    for key in sorted({update.key for update in updates}):
        story = [update for update in updates if update.key == key]
        if [update.count for update in story] != [*range(1, len(story) + 1)]:
            found.append(f"{key}: counts {[update.count for update in story]}")
        if [update.before for update in story] != [0, *(update.drawn for update in story)][: len(story)]:
            found.append(f"{key}: an update was not computed from the one before it")
    return found


def problems(cluster: Cluster, batches: int) -> list[str]:
    """Return what a reader of committed records finds wrong."""
    wait_until_stable(cluster, [(CHANGELOG, task) for task in range(TASKS)])
    found = []
    for task in range(TASKS):
        wanted = Counter(key for batch in range(batches) for key in inputs(batch, task))
        records, _, _ = cluster.stable(model.TOPIC, task)
        outputs = [Update(*json.loads(record.value)) for record in records]
        records, _, _ = cluster.stable(CHANGELOG, task)
        logged = [Update(*json.loads(record.value)) for record in records]
        if outputs != logged:
            found.append(f"task {task}: output {outputs} is not changelog {logged}")
        wanted[SOMETIMES] = sum(update.key == SOMETIMES for update in outputs)
        if Counter(update.key for update in outputs) != +wanted:
            found.append(f"task {task}: has not read its input once each: {outputs}")
        found += [f"task {task}, {problem}" for problem in broken_stories(outputs)]
    return found


def late_attempt(
    cluster: Cluster, processes: list[Process], run: str, committed: int, choose: random.Random
) -> model.Requests:  # fmt: skip
    """A second attempt of a task, or a late one."""
    batch, task = max(0, committed + choose.randint(0, 1)), choose.randrange(TASKS)
    return attempt(cluster, choose.choice(processes), run, batch, task)


class Job(NamedTuple):
    """What runs in `chaos`."""

    cluster: Callable[[int], Cluster] = Cluster
    query: Callable[..., model.Requests] = query
    late_attempt: Callable[..., model.Requests] = late_attempt
    problems: Callable[[Cluster, int], list[str]] = problems
    turns: int = 4000
    checkpoint: Callable[[], Any] = model.Checkpoint


def chaos(seed: int, batches: int = 5, *, ends: bool = False, job: Job = Job()) -> list[str]:  # noqa: B008  a constant
    """Run drivers and tasks that die, freeze and come back, in random order; returns what is wrong in the end.

    With `ends` drivers close the application in processes now and then, the last one or one that was thought dead.
    """
    choose, ending = random.Random(seed), random.Random(f"end {seed}")
    known: list[Decision] = []
    cluster, checkpoint, turns = job.cluster(choose.choice([0, 3, 12])), job.checkpoint(), job.turns
    processes = [Process(f"p{number}", seed) for number in range(choose.randint(1, 3))]
    runs, disks = 0, [dict[str, Kept]() for _ in processes]
    frozen: list[Handle] = []
    current: Handle | None = None
    for turn in range(turns):
        if checkpoint.committed >= batches - 1:
            break
        if current is None or current.is_done:
            runs += 1
            ghosts = frozen if choose.random() < 0.7 else None
            current = Handle(job.query(cluster, checkpoint, f"r{runs}", batches, processes, choose, ghosts, known))
        current.turn(cluster)
        if ends and ending.random() < 0.02:
            ending.choice(processes).end(ending.choice([None, *known[-3:]]))
        event = choose.random()
        if turn > turns * 3 // 4:
            continue  # peace, so that it comes to an end
        if event < 0.01:
            current = None  # the driver dies
        elif event < 0.02:
            frozen.append(current)  # it is thought dead, and goes on later
            current = None
        elif event < 0.03:
            index = choose.randrange(len(processes))
            disk = choose.choice([processes[index].disk, disks[index], {}])  # the same, one of long ago, another's
            disks[index] = dict(processes[index].disk)
            processes[index] = Process(f"p-{turn}", seed, disk)
        elif event < 0.035:
            cluster.crash()
        elif event < 0.06:
            frozen.append(Handle(job.late_attempt(cluster, processes, f"r{runs}", checkpoint.committed, choose)))
        if frozen and choose.random() < 0.5:
            zombie = choose.choice(frozen)
            zombie.turn(cluster)
            if zombie.is_done:
                frozen.remove(zombie)
    if checkpoint.committed < batches - 1:
        why = None if current is None else current.failed
        return [f"the query has come to batch {checkpoint.committed} only ({why})"]
    return job.problems(cluster, batches)
