"""How long a broker takes from its command line to the first answered Produce and Fetch, and what it weighs when idle.

Beside it the yardstick: `python -c 'import asyncio, sqlite3'`. Run: ./run bench broker_start [--rounds N]
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from benchmarks._options import options
from tests.support.core_broker import SocketClient, batch, create, fetch, produce


def yardstick() -> float:
    """Seconds that a Python with asyncio and sqlite3 takes to start and end."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import asyncio, sqlite3"], check=True)
    return time.perf_counter() - start


def broker_start(data: str, create_topic: bool) -> tuple[float, float, int]:
    """Seconds to the ready line and to the first Fetch, and the resident KiB when it is idle again."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "barnabas.cli.main", "up", "--listen", "127.0.0.1:0", "--data", data]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        line = process.stdout.readline().decode()
        ready = time.perf_counter() - start
        address = line.removeprefix("listening on ").partition(",")[0]
        with SocketClient(address) as client:
            if create_topic:
                client.request(create("bench"), 7)
            answer = client.request(produce("bench", batch(b"x", now_ms=int(time.time() * 1000))), 12)
            assert answer.responses[0].partition_responses[0].error_code == 0
            assert len(client.request(fetch("bench"), 12).responses[0].partitions[0].records)
            served = time.perf_counter() - start
        time.sleep(0.2)
        with open(f"/proc/{process.pid}/status") as file:
            resident = int(file.read().partition("VmRSS:")[2].split()[0])
        process.terminate()
    return ready, served, resident


def main() -> None:
    """Measure in turns and print medians."""
    given = options(__doc__, rounds=7)
    data = tempfile.mkdtemp(prefix="barnabas-bench-")
    bare, readies, serveds, resident = [], [], [], 0
    try:
        for number in range(given.rounds):
            bare.append(yardstick())
            ready, served, resident = broker_start(data, create_topic=number == 0)
            readies.append(ready)
            serveds.append(served)
    finally:
        shutil.rmtree(data)
    yard, ready, served = (statistics.median(times) for times in (bare, readies, serveds))
    print(f"python with asyncio and sqlite3: {yard:.3f} s")
    print(f"broker ready: {ready:.3f} s; first produce and fetch answered: {served:.3f} s = {served / yard:.2f} x")
    print(f"resident when idle: {resident / 1024:.1f} MB")


if __name__ == "__main__":
    main()
