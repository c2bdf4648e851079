"""A partition whose files cannot be used is seen as offline by the tools, and comes back without a restart."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from barnabas import AdminClient, Broker
from tests.contract.waiting import eventually
from tests.support.core_broker import SocketClient, batch, create, produce


def barnabas(broker: Broker, *arguments: str) -> str:
    command = [sys.executable, "-m", "barnabas.cli.main", *arguments, "-b", broker.bootstrap_servers]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def leaders(broker: Broker) -> list[int | None]:
    with AdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
        described = admin.describe_topics(["t"])["t"].partitions
    return [None if partition.leader is None else partition.leader.id for partition in described]


def test_it_is_shown_and_comes_back(tmp_path: Path) -> None:
    with Broker(data_dir=str(tmp_path)) as broker:
        with SocketClient(broker.bootstrap_servers) as client:
            client.request(create("t", 2), 7)
            for partition in (0, 1):
                now_ms = time.time_ns() // 1_000_000
                response = client.request(produce("t", batch(b"value", now_ms=now_ms), partition), 9)
                assert response.responses[0].partition_responses[0].error_code == 0
        broker.stop()
        log = tmp_path / "t-0" / f"{0:020}.log"
        log.rename(tmp_path / "elsewhere")
        log.symlink_to(tmp_path / "no such directory" / "file")

        broker.start()
        eventually(lambda: leaders(broker) == [None, 1])
        rows = [line.split() for line in barnabas(broker, "topic", "describe", "t").splitlines()[-2:]]
        assert [row[:2] for row in rows] == [["0", "-"], ["1", "1"]]

        log.unlink()
        (tmp_path / "elsewhere").rename(log)
        eventually(lambda: leaders(broker) == [1, 1])
        assert barnabas(broker, "consume", "t", "-e", "-f", "%s ").split() == ["value"] * 2
        said = broker.log_text()
    assert said.count("t-0 cannot be opened and is not served") == 1
    assert said.count("t-0 is served again") == 1
