"""Instructions of client and broker per operation, counted by valgrind: a figure that other work does not change.

Two runs of different lengths, whose difference counts, so that starting costs nothing: a trip of one record
(`send().result()`), `send()` into large and into small batches, `poll()` of 10,000, and in the broker's process a
Produce of one record, one at a time and eight ahead.

Run: ./run bench instructions [--against SRC] [--operations N] [--case NAME]; SRC is the `src` directory of another
clone, with its compiled modules, which is then counted beside ours. Needs valgrind (a package of every system).
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from benchmarks._options import parser

SOURCE = Path(__file__).parents[1] / "src"
PORT = 19095
#: So many records go with one operation, where an operation is a part of a batch.
RECORDS = 50
STARTS_WITHIN = 60.0

_SEND = """
with Producer(bootstrap_servers={to!r}, acks="all", linger_ms=1000, batch_size={batch}) as producer:
    value = b"x" * 100
    for _ in range({count}):
        producer.send("bench", value=value, partition=0)
    producer.flush()
"""
#: What a client does, by case; `count` is the number of operations.
CLIENTS = {
    "a trip of one record": """
with Producer(bootstrap_servers={to!r}, acks="all", linger_ms=0) as producer:
    for _ in range({count}):
        producer.send("bench", value=b"x" * 100, partition=0).result()
""",
    "send(), batches of 1 MB": _SEND.replace("{batch}", "1_000_000"),
    "send(), batches of 16 KB": _SEND.replace("{batch}", "16_384"),
    "poll() of 10,000": """
consumer = Consumer(bootstrap_servers={to!r}, auto_offset_reset="earliest", group_id=None)
consumer.assign([TopicPartition("bench", 0)])
read = 0
while read < {count}:
    read += len(list(consumer.poll(1, max_records=10_000)))
consumer.close()
""",
}
AHEAD = """
with Producer(bootstrap_servers={to!r}, acks="all", linger_ms=0) as producer:
    for _ in range({count} // 8):
        for future in [producer.send("bench", value=b"x" * 100, partition=0) for _ in range(8)]:
            future.result()
"""
#: What drives the broker whose instructions are counted, by case.
BROKERS = {"Produce, one at a time": CLIENTS["a trip of one record"], "Produce, eight ahead, a record": AHEAD}
CASES = (*CLIENTS, *BROKERS)


def main() -> None:
    """Count each case for ours and for the other source, and print both."""
    taken = parser(__doc__)
    taken.add_argument("--against", type=Path, help="the src directory of another clone")
    taken.add_argument("--operations", type=int, default=1500, help="of the longer run")
    taken.add_argument("--case", choices=CASES, help="only this one")
    given = taken.parse_args()
    if shutil.which("valgrind") is None:
        raise SystemExit("valgrind is not installed: apt install valgrind (or the like of your system)")
    sources = [SOURCE, *([given.against.resolve()] if given.against else [])]
    for case in [given.case] if given.case else CASES:
        counts = [_per_operation(case, source, given.operations) for source in sources]
        ratio = f"{counts[0] / counts[1]:8.3f} of {given.against}" if given.against else ""
        print(f"{case:<32} {counts[0]:12,.0f} instructions {ratio}", flush=True)


def _per_operation(case: str, source: Path, operations: int) -> float:
    count: Callable[[int], int]
    scale = RECORDS if case.startswith(("send()", "poll()")) else 1
    if case in CLIENTS:
        with _broker([sys.executable], SOURCE):
            _run(_SEND.format(to=_address(), count=operations * RECORDS, batch=1_000_000), SOURCE)
            return _difference(lambda n: _count_client(CLIENTS[case], source, n * scale), operations) / scale
    count = lambda n: _count_broker(BROKERS[case], source, n)  # noqa: E731
    return _difference(count, operations)


def _difference(count: Callable[[int], int], operations: int) -> float:
    few = operations // 5
    return (count(operations) - count(few)) / (operations - few)


def _count_client(code: str, source: Path, operations: int) -> int:
    with tempfile.NamedTemporaryFile() as told:
        _run(code.format(to=_address(), count=operations, batch=0), source, _valgrind(told.name))
        return _collected(Path(told.name))


def _count_broker(code: str, source: Path, operations: int) -> int:
    with tempfile.NamedTemporaryFile() as told:
        with _broker([*_valgrind(told.name), sys.executable], source):
            _run(code.format(to=_address(), count=operations), SOURCE)
        return _collected(Path(told.name))


def _valgrind(log: str) -> list[str]:
    return ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", f"--log-file={log}"]


def _collected(log: Path) -> int:
    found = re.search(r"Collected : (\d+)", log.read_text())
    if found is None:
        raise SystemExit(f"valgrind counted nothing: {log.read_text()[-2000:]}")
    return int(found.group(1))


def _run(code: str, source: Path, before: list[str] | None = None) -> None:
    program = "from barnabas import Consumer, Producer, TopicPartition\n" + code
    done = subprocess.run(
        [*(before or []), sys.executable, "-c", program],
        env=_environment(source),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"the client of {source} failed: {done.stderr[-2000:]}")


@contextmanager
def _broker(python: list[str], source: Path) -> Iterator[None]:
    with tempfile.TemporaryDirectory() as data, tempfile.TemporaryFile() as said:
        command = f"from barnabas.cli.main import main; main(['up', '--listen', {_address()!r}, '--data', {data!r}])"
        process = subprocess.Popen([*python, "-c", command], env=_environment(source), stdout=said, stderr=said)
        try:
            _wait_for_broker(process)
            yield
        finally:
            process.send_signal(signal.SIGINT)
            process.wait()


def _wait_for_broker(process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + STARTS_WITHIN
    while process.poll() is None and time.monotonic() < until:
        with suppress(OSError), socket.create_connection(("127.0.0.1", PORT)):
            return
        time.sleep(0.2)
    raise SystemExit("the broker did not start")


def _address() -> str:
    return f"127.0.0.1:{PORT}"


def _environment(source: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(source), "PYTHONHASHSEED": "0"}


if __name__ == "__main__":
    main()
