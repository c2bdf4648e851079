"""A process that is killed while it appends loses no record whose offset it has told."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from barnabas.broker.log.log_manager import LogManager
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records import read_batches

NAME = TopicPartition("t", 0)
SETTINGS = {"segment.bytes": 50_000, "index.interval.bytes": 500}

APPEND_FOR_EVER = """
import sys
from barnabas.broker.log.log_manager import LogManager
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records import RecordBatchBuilder

manager = LogManager(sys.argv[1], config={"segment.bytes": 50_000, "index.interval.bytes": 500})
manager.start()
log = manager.get_log(TopicPartition("t", 0)) or manager.create_log(TopicPartition("t", 0))
sequence = log.log_end_offset
while True:
    builder = RecordBatchBuilder(1 << 20)
    for at in range(3):
        builder.try_append(1_700_000_000_000, None, str(sequence + at).encode() * 20, [])
    builder.set_producer_state(1, 0, sequence)
    info = log.append(builder.close(), now_ms=1_700_000_000_000)
    sequence += 3
    manager.step(1, 1_700_000_000_000)
    sys.stdout.write(f"{info.last_offset}\\n")
    sys.stdout.flush()
"""


@pytest.mark.parametrize("rounds", [4])
def test_every_acknowledged_record_survives_sigkill(tmp_path: Path, rounds: int) -> None:
    acknowledged = -1
    for at in range(rounds):
        child = subprocess.Popen([sys.executable, "-c", APPEND_FOR_EVER, str(tmp_path)], stdout=subprocess.PIPE)
        assert child.stdout is not None
        told = [child.stdout.readline() for _ in range(50 + 100 * at)]
        child.send_signal(signal.SIGKILL)
        told += child.stdout.readlines()
        child.wait()
        child.stdout.close()
        acknowledged = int([line for line in told if line.endswith(b"\n")][-1])

    manager = LogManager(str(tmp_path), config=SETTINGS)
    manager.start()
    log = manager.get_log(NAME)
    assert log is not None
    assert not manager.had_clean_shutdown
    assert acknowledged + 1 <= log.log_end_offset <= acknowledged + 4
    assert log.number_of_segments > 1
    offset = 0
    while records := log.read(offset, 100_000).records:
        for batch in read_batches(records):
            for record in batch:
                assert record.value == str(offset).encode() * 20
                offset += 1
    assert offset == log.log_end_offset
    assert log.producer_state.producers[1].last_sequence == offset - 1
    manager.close()
