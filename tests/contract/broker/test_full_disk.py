"""A broker on a file system that is really full: a small tmpfs."""

from __future__ import annotations

import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas import Broker, errors
from barnabas.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.messages.metadata_request import MetadataRequest
from barnabas.records import read_batches
from tests.support.core_broker import SocketClient, batch, create, fetch, produce
from tests.support.patience import PATIENCE

SIZE = 6 << 20
STORAGE = errors.KafkaStorageError.code


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(tmp_path)], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"no file system of a given size can be mounted here: {mounted.stderr.strip()}")
    try:
        yield tmp_path
    finally:
        subprocess.run(["umount", "-l", str(tmp_path)], check=True)


def send(client: SocketClient, topic: str, size: int) -> int:
    result = client.request(produce(topic, batch(bytes(size), now_ms=time.time_ns() // 1_000_000)), 9)
    code: int = result.responses[0].partition_responses[0].error_code
    return code


def fill(client: SocketClient, topic: str) -> int:
    """Append until nothing fits any more, not even a small batch; how many batches were acknowledged."""
    count = 0
    for size in (200_000, 20_000, 2_000, 100):
        while send(client, topic, size) == 0:
            count += 1
    return count


def count_records(client: SocketClient, topic: str) -> int:
    offset = 0
    while True:
        got: Any = client.request(fetch(topic, offset), 11).responses[0].partitions[0]
        if got.error_code == errors.NotLeaderOrFollowerError.code:
            # Nothing could be written down about the end of the last broker: the log is being recovered.
            continue
        assert got.error_code == 0
        if not got.records:
            return offset
        for found in read_batches(got.records):
            offset = found.next_offset


def delete(client: SocketClient, topic: str) -> int:
    response = client.request(DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=10_000), 6)
    code: int = response.responses[0].error_code
    return code


def test_on_a_full_disk_reading_goes_on_and_topics_are_deleted_to_make_room(small_disk: Path) -> None:
    with Broker(data_dir=str(small_disk / "data")) as broker, SocketClient(broker.bootstrap_servers) as client:
        for topic in ("kept", "large"):
            assert client.request(create(topic), 7).topics[0].error_code == 0
        assert send(client, "kept", 1000) == 0
        sent = fill(client, "large")
        kept = 1 + fill(client, "kept")

        # New records and topics are refused with the reason, and what is there is read.
        refused = client.request(create("more" * 40, 100), 7).topics[0]
        assert (refused.error_code, "full" in refused.error_message) == (STORAGE, True)
        assert count_records(client, "large") == sent
        assert count_records(client, "kept") == kept

        # A broker that is started on the full disk serves as much.
        broker.restart()
        with SocketClient(broker.bootstrap_servers) as again:
            assert count_records(again, "large") == sent
            assert count_records(again, "kept") == kept
            assert send(again, "kept", 200_000) == STORAGE

            # Room is made, and used without another start.
            assert delete(again, "large") == 0
            until = time.monotonic() + PATIENCE
            while send(again, "kept", 200_000) != 0:
                assert time.monotonic() < until, broker.log_text()
                time.sleep(0.1)
            assert count_records(again, "kept") == kept + 1
            topics = again.request(MetadataRequest(topics=None), 12).topics
            assert [(topic.name, topic.partitions[0].leader_id) for topic in topics] == [("kept", 1)]
        said = broker.log_text()
    assert "please report this" not in said
    repeated = {line: times for line, times in Counter(map(without_time, said.splitlines())).items() if times > 2}
    assert not repeated, said


def without_time(line: str) -> str:
    return line.partition("] ")[2] or line
