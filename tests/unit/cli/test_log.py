"""`barnabas log`: looking at a partition's files without a broker, and without touching them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from barnabas.broker.log.log_manager import LogManager
from barnabas.broker.log.os_filesystem import OsFileSystem
from barnabas.cli import main as cli
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records import RecordBatchBuilder
from tests.support.sole_replica import append

NOW = 1_700_000_000_000
ZEROS = "0" * 20
BATCHES = 4


def batch(timestamp: int, *values: bytes) -> bytes:
    builder = RecordBatchBuilder(1 << 20)
    builder.set_producer_state(7, 0, (timestamp - NOW) // 10 * len(values))
    for at, value in enumerate(values):
        builder.try_append(timestamp + at, b"k", value, [("h", b"1")])
    return builder.close()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory with four batches of two records, of which the index names some."""
    manager = LogManager(str(tmp_path / "data"), config={"index.interval.bytes": "100"})
    manager.start()
    log = manager.create_log(TopicPartition("flights", 3), bytes(range(16)))
    for at in range(BATCHES):
        append(log, batch(NOW + 10 * at, b"first", b"second"), now_ms=NOW)
    manager.close()
    return tmp_path / "data"


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = cli.main(["log", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def documents(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def damage(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 0xFF
    path.write_bytes(content)


def test_the_list_tells_what_lies_in_a_data_directory(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, text, _ = run(capsys, "list", str(data), "-o", "json")

    assert code == 0
    size = (data / "flights-3" / f"{ZEROS}.log").stat().st_size
    assert json.loads(text)["partitions"] == [
        {
            "topic": "flights",
            "partition": 3,
            "firstOffset": 0,
            "endOffset": 8,
            "segments": 1,
            "size": size,
            "directory": str(data / "flights-3"),
        }
    ]


def test_a_dump_has_the_batches_and_on_request_their_records(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    segment = str(data / "flights-3" / f"{ZEROS}.log")

    code, without, _ = run(capsys, "dump", segment, "-o", "json")
    _, with_records, _ = run(capsys, "dump", segment, "--records", "-o", "json")

    assert code == 0
    assert [(d["kind"], d["baseOffset"], d["lastOffset"], d["count"]) for d in documents(without)] == [
        ("batch", 2 * at, 2 * at + 1, 2) for at in range(BATCHES)
    ]
    records = [d for d in documents(with_records) if d["kind"] == "record"]
    assert [d["offset"] for d in records] == list(range(2 * BATCHES))
    assert records[5] == {
        "file": segment,
        "kind": "record",
        "offset": 5,
        "timestamp": NOW + 21,
        "keySize": 1,
        "valueSize": 6,
        "sequence": 5,
        "key": "k",
        "value": "second",
        "headers": [{"key": "h", "value": "1"}],
    }


def test_for_people_a_dump_has_the_lines_of_kafkas_dump_log_segments(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, text, _ = run(capsys, "dump", str(data / "flights-3"), "-r")

    assert f"Dumping {data}/flights-3/{ZEROS}.log\nbaseOffset: 0 lastOffset: 1 count: 2 baseSequence: 0" in text
    assert "| offset: 0 timestamp: 1700000000000 keySize: 1 valueSize: 5 sequence: 0 headerKeys: [h] key: k " in text
    assert f"{ZEROS}.index\noffset: 5 position: " in text
    assert f"{ZEROS}.timeindex\ntimestamp: {NOW + 21} offset: 5" in text
    assert "producerId: 7 producerEpoch: 0" in text
    assert "epoch: " not in text.partition("leader-epoch-checkpoint")[0]
    assert "topicId: AAECAwQFBgcICQoLDA0ODw" in text


def test_committed_offsets_are_shown_as_what_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from barnabas.broker.groups.coordinator_records import offset_commit_record, offset_commit_tombstone
    from barnabas.broker.groups.offsets.offset_and_metadata import OffsetAndMetadata

    directory = tmp_path / "__consumer_offsets-3"
    directory.mkdir()
    committed = OffsetAndMetadata(42, -1, metadata="m", commit_timestamp_ms=NOW)
    builder = RecordBatchBuilder(1 << 20)
    for key, value in (offset_commit_record("g", "flights", 1, committed), offset_commit_tombstone("g", "flights", 1)):
        builder.try_append(NOW, key, value, [])
    (directory / f"{ZEROS}.log").write_bytes(builder.close())

    _, text, _ = run(capsys, "dump", str(directory), "-r", "-o", "json")

    commit, tombstone = (d for d in documents(text) if d["kind"] == "record")
    assert commit["type"] == tombstone["type"] == "OffsetCommit"
    assert commit["key"] == {"group": "g", "topic": "flights", "partition": 1}
    assert isinstance(commit["value"], dict)
    assert commit["value"]["offset"] == 42
    assert tombstone["value"] is None


def test_sound_files_have_no_problems(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, text, note = run(capsys, "dump", "--verify", str(data / "flights-3"))

    assert (code, text) == (0, "")
    assert note.endswith(" 0 problems\n")


def test_a_damaged_batch_is_reported_and_the_next_ones_are_shown(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    segment = data / "flights-3" / f"{ZEROS}.log"
    size = segment.stat().st_size // BATCHES
    damage(segment, size + 70)

    code, text, errors = run(capsys, "dump", str(segment), "-o", "json")
    verified, problems, _ = run(capsys, "dump", "--verify", str(segment), "-o", "json")

    assert (code, verified) == (1, 1)
    assert [d["baseOffset"] for d in documents(text)] == [0, 4, 6]
    assert f"at byte {size} of" in errors
    assert f"going on at byte {2 * size}" in errors
    assert f"at byte {size} of" in json.loads(problems)[0]["problems"][0]


@pytest.mark.parametrize(
    ("name", "position", "complaint"),
    [
        (f"{ZEROS}.index", 3, "ends with 5, not with"),
        (f"{ZEROS}.index", 7, "no batch begins at byte"),
        (f"{ZEROS}.timeindex", 7, "follows|should be the largest"),
        (f"{8:020d}.snapshot", 10, "its checksum or length is wrong"),
        ("leader-epoch-checkpoint", 0, "is not text|has version"),
    ],
)
def test_files_that_do_not_fit_together_are_found(
    data: Path, capsys: pytest.CaptureFixture[str], name: str, position: int, complaint: str
) -> None:
    import re

    damage(data / "flights-3" / name, position)

    code, text, _ = run(capsys, "dump", "--verify", str(data / "flights-3"))

    assert code == 1
    assert re.search(complaint, text), text


def test_an_index_is_verified_with_its_segment(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    index = data / "flights-3" / f"{ZEROS}.index"
    damage(index, 7)

    assert run(capsys, "dump", "--verify", str(index))[0] == 1
    index.with_suffix(".log").unlink()
    code, text, _ = run(capsys, "dump", "--verify", str(index))
    assert code == 1
    assert text.endswith(f"{ZEROS}.log is missing\n")


def test_preallocated_index_space_holds_no_entries(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    index = data / "flights-3" / f"{ZEROS}.index"
    _, before, _ = run(capsys, "dump", str(index))
    index.write_bytes(index.read_bytes() + bytes(4096))

    _, after, _ = run(capsys, "dump", str(index))

    assert before == after
    assert before.count("offset:") == len(index.read_bytes().rstrip(b"\0")) // 8


def test_looking_changes_nothing(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def state() -> dict[str, tuple[bytes, int]]:
        files = [path for path in data.rglob("*") if path.is_file()]
        return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}

    before = state()
    run(capsys, "list", str(data))
    run(capsys, "dump", str(data / "flights-3"), "-r")
    run(capsys, "dump", str(data / "flights-3"), "--verify")

    assert state() == before
    with pytest.raises(FileNotFoundError):
        OsFileSystem(read_only=True).open(str(data / "new")).size()
    assert not (data / "new").exists()


def test_paths_that_hold_no_partition_are_refused_with_what_to_do(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, error = run(capsys, "dump", str(data))
    assert (code, error.count("\n")) == (2, 1)
    assert f"`barnabas log list {data}`" in error

    assert run(capsys, "dump", str(data / "meta.properties"))[0] == 2
    code, _, error = run(capsys, "dump", str(data / "none.log"))
    assert code == 1
    assert "No such file or directory" in error
