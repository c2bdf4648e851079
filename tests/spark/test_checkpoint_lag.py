"""`barnabas spark lag`: what a checkpoint says, against the topics; no Spark is needed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from barnabas import AdminClient, Producer, TopicPartition
from barnabas.cli.main import main
from barnabas.spark.checkpoint import CheckpointError, read_checkpoint

NewTopicName = Callable[[int], str]


def write(folder: Path, name: str, number: int, *lines: str, version: str = "v1") -> None:
    (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / name / str(number)).write_text("\n".join([version, "{}", *lines]), encoding="utf-8")
    (folder / name / f".{number}.crc").write_bytes(b"crc")


def test_a_query_stands_where_its_last_finished_micro_batch_ended(tmp_path: Path) -> None:
    write(tmp_path, "offsets", 9, '{"t": {"0": 5}}', "-")
    write(tmp_path, "offsets", 10, '{"t": {"0": 8}}', '{"offset":1000,"timestamp":1}', '{"u": {"3": 1}}')
    write(tmp_path, "commits", 9)

    batch, sources = read_checkpoint(tmp_path)

    zero, three = TopicPartition("t", 0), TopicPartition("u", 3)
    assert (batch, sources) == (9, [(0, {zero: 5}, {zero: 8}), (2, {}, {three: 1})])


def test_what_is_no_checkpoint_and_what_is_of_another_version_is_said(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no checkpoint of a streaming query"):
        read_checkpoint(tmp_path)
    write(tmp_path, "offsets", 0, "{}", version="v7")

    with pytest.raises(CheckpointError, match=r"version 'v7'; v1 is understood"):
        read_checkpoint(tmp_path)


def test_the_command_prints_lag_lost_offsets_and_partitions_that_are_gone(
    servers: str, new_topic: NewTopicName, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = new_topic(2)
    with Producer(bootstrap_servers=servers) as producer:
        for number in range(20):
            producer.send(topic, b"v", partition=number % 2)
    with AdminClient(bootstrap_servers=servers) as admin:
        admin.delete_records({TopicPartition(topic, 1): 6})
    write(tmp_path, "offsets", 0, json.dumps({topic: {"0": 3, "1": 4}, "gone-topic": {"0": 7}}))
    write(tmp_path, "commits", 0)
    arguments = ["spark", "lag", "--checkpoint", str(tmp_path), "-b", servers]

    assert main([*arguments, "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert main(arguments) == 0
    printed = capsys.readouterr()

    found = {(row["topic"], row["partition"]): (row["position"], row["end"], row["lag"], row["lost"])
             for row in document["partitions"]}  # fmt: skip
    assert found == {(topic, 0): (3, 10, 7, 0), (topic, 1): (4, 10, 6, 2), ("gone-topic", 0): (7, None, None, None)}
    assert (document["lag"], document["lastFinishedBatch"]) == (13, 0)
    assert "lag                        13" in printed.out
    assert "no longer exist" in printed.err
    assert "lost: offsets" in printed.err
