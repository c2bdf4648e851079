"""What a batch of an application of streams costs when the application is young, and when it is old.

`./run bench streams_age [--batches N] [--records N]`
A count by key with a fixed number of keys, exactly once: all that `KafkaStreams` does for a batch but for Spark, its
processes and their sockets; the driver's part and the task's run in one thread, the broker in another process. Told for
batches around the tenth and the last: requests to the broker by kind, bytes of the decision, entries and bytes of the
state, and CPU of the thread. Counts do not depend on what else the machine does.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
import uuid
from collections import Counter
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, NamedTuple

from barnabas import AdminClient, Broker, NewTopic, Producer
from barnabas.network.network_client import NetworkClient
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.spark.co_partitions import PlannedTask
from barnabas.spark.exactly_once import driver_steps
from barnabas.spark.exactly_once.commit_protocol import Task
from barnabas.spark.exactly_once.decision_log import DecisionReader
from barnabas.spark.ranges import OffsetRange
from barnabas.streams import Materialized, Serdes, StreamsBuilder
from barnabas.streams.config import StreamsConfig
from barnabas.streams.spark import internal_topics, query_plan
from barnabas.streams.spark.task_manager import Request, TaskHome

KEYS = 1000
#: Batches around the one that is told of.
AROUND = 20


class Cost(NamedTuple):
    """What one batch has cost."""

    requests: Counter[str]
    decision: int
    entries: int
    disk: int
    cpu: float


def count_requests() -> Counter[str]:
    """Count the requests that clients of this process send, by kind, from now on."""
    sent: Counter[str] = Counter()
    send = NetworkClient._do_send

    def counting(client: Any, request: Any, *rest: Any, **more: Any) -> Any:
        sent[ApiKey(request.api_key).name] += 1
        return send(client, request, *rest, **more)

    NetworkClient._do_send = counting  # type: ignore[method-assign]
    return sent


def run(servers: str, folder: Path, batches: int, records: int) -> list[Cost]:
    """Run so many batches, and return what each has cost."""
    sent, query = count_requests(), str(uuid.uuid4())
    costs: list[Cost] = []
    builder = StreamsBuilder()
    builder.stream("in").group_by_key().count(Materialized.as_("counts")).to_stream().to("out", value=Serdes.long())
    config = StreamsConfig({
        "application.id": "old", "bootstrap.servers": servers, "state.dir": str(folder), "default.key.serde": "string",
        "default.value.serde": "string", "statestore.cache.max.bytes": 0,
    })  # fmt: skip
    planned = query_plan.planned(builder.build(), config)
    with AdminClient(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic("in", 1), NewTopic("out", 1)])
        counts = internal_topics.counted(planned.infos, planned.copartitioned, {"in": 1})
        internal_topics.create_internal_topics(admin, planned.infos, counts, 1)
    application = query_plan.application(planned, counts, {"out": 1})
    place = application.place
    with (
        Producer(bootstrap_servers=servers) as producer,
        closing(TaskHome(application)) as home,
        closing(DecisionReader(dict(place.client), place.topic)) as reader,
    ):
        for batch in range(batches):
            start = batch * records
            for number in range(start, start + records):
                producer.send("in", b"value", key=b"%d" % (number % KEYS), timestamp_ms=number)
            producer.flush()
            sent.clear()
            ranges = (OffsetRange(TopicPartition("in", 0), start, start + records),)
            cpu = time.thread_time()
            request = Request(Task(query, "run", batch, 0), PlannedTask("0_0", 0, ranges, 1000 * (batch + 1), ()), {})
            answer = home.run(request)
            driver_steps.commit(place, batch, [answer.report])
            cpu = time.thread_time() - cpu
            assert answer.measures is not None
            requests, sizes = sent.copy(), answer.measures
            decision = reader.value(query.encode())
            entries = sizes.stores["counts"].entries or 0
            costs.append(Cost(requests, len(decision or b""), entries, sizes.disk_bytes, cpu))
    driver_steps.let_go(place, query)
    return costs


def tell(name: str, costs: list[Cost]) -> None:
    """Print the medians of some batches."""
    kinds = sorted({kind for cost in costs for kind in cost.requests})
    requests = {kind: statistics.median(cost.requests[kind] for cost in costs) for kind in kinds}
    asked = ", ".join(f"{kind} {count:g}" for kind, count in requests.items() if count)
    decision = max(cost.decision for cost in costs)
    print(f"{name}: {sum(requests.values()):g} requests ({asked}); decision {decision} bytes; state "
          f"{costs[-1].entries} entries, {costs[-1].disk / 1024:.0f} KiB; "
          f"CPU {statistics.median(cost.cpu for cost in costs) * 1000:.2f} ms")  # fmt: skip


def main() -> None:
    """Parse, run, tell."""
    parser = argparse.ArgumentParser(prog="./run bench streams_age", description=__doc__.partition("\n\n")[0])
    parser.add_argument("--batches", type=int, default=1000)
    parser.add_argument("--records", type=int, default=100)
    arguments = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="streams-age-")))
        broker = stack.enter_context(Broker(log_retention_ms=-1))
        costs = run(broker.bootstrap_servers, folder, arguments.batches, arguments.records)
    tell("batch 10", costs[KEYS // arguments.records : KEYS // arguments.records + AROUND])
    tell(f"batch {arguments.batches}", costs[-AROUND:])


if __name__ == "__main__":
    main()
