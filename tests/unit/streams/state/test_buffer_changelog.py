"""Suppression buffers are restored from changelogs of every version that Kafka wrote.

The bytes, of releases 2.1 to 2.4, and the results are those of Kafka's TimeOrderedKeyValueBufferTest.
"""

from types import SimpleNamespace
from typing import NamedTuple

import pytest

from barnabas.streams.errors import StreamsError
from barnabas.streams.serdes.change import Change
from barnabas.streams.serdes.serdes import Serdes
from barnabas.streams.state.memory import MemoryBackend
from barnabas.streams.state.time_ordered_buffer import TimeOrderedChangeBuffer

CONTEXT = "000000000000000{0}000000000000000000000005746F70696300000000FFFFFFFF"


class Record(NamedTuple):
    """A record as a consumer reads it."""

    key: bytes
    value: bytes | None
    timestamp: int
    headers: list[tuple[str, bytes | None]]
    offset: int
    topic: str = "changelog-topic"
    partition: int = 0


class Version(NamedTuple):
    """What a release wrote: for the key todelete, for asdf, and twice for zxcv."""

    header: bytes | None
    values: list[str]
    sizes: tuple[int, int]
    old: str
    topic: str = "topic"


VERSIONS = {
    "0, Kafka 2.1": Version(
        None,
        [
            "0000000000000000FFFFFFFF00000006646F6F6D6564",
            "0000000000000002FFFFFFFF0000000471776572",
            "00000000000000010000000870726576696F757300000005656F34696D",
            "000000000000000100000005656F34696D000000046E657874",
        ],
        (172, 115),
        "eo4im",
        "changelog-topic",
    ),
    "1, Kafka 2.2": Version(
        b"\x01",
        [
            "0000000000000000" + CONTEXT.format(0) + "0000000EFFFFFFFF00000006646F6F6D6564",
            "0000000000000002" + CONTEXT.format(1) + "0000000CFFFFFFFF0000000471776572",
            "0000000000000001" + CONTEXT.format(2) + "000000150000000870726576696F757300000005336F34696D",
            "0000000000000001" + CONTEXT.format(3) + "0000001100000005336F34696D000000046E657874",
        ],
        (142, 95),
        "3o4im",
    ),
    "2, Kafka 2.3": Version(
        b"\x02",
        [
            CONTEXT.format(0) + "0000000EFFFFFFFF00000006646F6F6D6564FFFFFFFF0000000000000000",
            CONTEXT.format(1) + "0000000CFFFFFFFF0000000471776572FFFFFFFF0000000000000002",
            CONTEXT.format(2)
            + "000000140000000749474E4F52454400000005336F34696D0000000870726576696F75730000000000000001",
            CONTEXT.format(3) + "0000001100000005336F34696D000000046E6578740000000870726576696F75730000000000000001",
        ],
        (142, 95),
        "3o4im",
    ),
}
VALUES_OF_VERSION_3 = [
    CONTEXT.format(0) + "FFFFFFFFFFFFFFFF00000006646F6F6D65640000000000000000",
    CONTEXT.format(1) + "FFFFFFFFFFFFFFFF00000004717765720000000000000002",
    CONTEXT.format(2) + "0000000870726576696F75730000000749474E4F52454400000005336F34696D0000000000000001",
    CONTEXT.format(3) + "0000000870726576696F757300000005336F34696D000000046E6578740000000000000001",
]
VERSIONS["2 in name, Kafka 2.4.0 to 2.5.0"] = Version(b"\x02", VALUES_OF_VERSION_3, (142, 95), "3o4im")
VERSIONS["3, since Kafka 2.4.2"] = Version(b"\x03", VALUES_OF_VERSION_3, (142, 95), "3o4im")


def buffer_on(backend):
    made = TimeOrderedChangeBuffer("held", Serdes.string(), Serdes.string(), backend)
    made.init(
        SimpleNamespace(
            key_serde=None, value_serde=None, record_context=None, changelog_topic=lambda store: "changelog-topic"
        )
    )
    return made


def records_of(version):
    headers = [] if version.header is None else [("v", version.header)]
    keys = [b"todelete", b"asdf", b"zxcv", b"zxcv"]
    return [Record(key, bytes.fromhex(value), number, headers, number)
            for number, (key, value) in enumerate(zip(keys, version.values, strict=True))]  # fmt: skip


def evictions_of(buffer):
    evicted = []
    buffer.evict_while(lambda: True, evicted.append)
    return [(key, change, place.timestamp, place.topic, place.headers) for key, change, place in evicted]


@pytest.mark.parametrize("name", sorted(VERSIONS))
def test_changelogs_of_every_version_are_restored(name):
    version, buffer = VERSIONS[name], buffer_on(MemoryBackend())
    buffer.restore(records_of(version))
    assert (buffer.num_records, buffer.min_timestamp, buffer.buffer_size) == (3, 0, version.sizes[0])

    buffer.restore([Record(b"todelete", None, 3, [], 4)])
    assert (buffer.num_records, buffer.min_timestamp, buffer.buffer_size) == (2, 1, version.sizes[1])
    assert buffer.prior_value("todelete") == (False, None)
    assert buffer.prior_value("asdf") == (True, None)
    assert buffer.prior_value("zxcv") == (True, ("previous", -1))
    assert evictions_of(buffer) == [
        ("zxcv", Change("next", version.old), 3, version.topic, []),
        ("asdf", Change("qwer", None), 1, version.topic, []),
    ]


@pytest.mark.parametrize("name", sorted(VERSIONS))
def test_what_was_restored_to_disk_is_there_after_a_restart(name, tmp_path):
    pytest.importorskip("lmdb")
    from barnabas.streams.state.disk import DiskBackend

    backend = DiskBackend(tmp_path, size_limit=1 << 24)
    buffer_on(backend).restore(records_of(VERSIONS[name]))
    again, straight = buffer_on(backend), buffer_on(MemoryBackend())
    straight.restore(records_of(VERSIONS[name]))
    assert again.prior_value("zxcv") == (True, ("previous", -1))
    assert evictions_of(again) == evictions_of(straight)
    backend.close()


def test_a_record_without_context_gets_its_place_in_the_changelog():
    buffer, evicted = buffer_on(MemoryBackend()), []
    buffer.restore([record._replace(partition=5, offset=77) for record in records_of(VERSIONS["0, Kafka 2.1"])])
    buffer.evict_while(lambda: True, evicted.append)
    assert {(found.context.partition, found.context.offset) for found in evicted} == {(5, 77)}


@pytest.mark.parametrize("name", sorted(VERSIONS))
@pytest.mark.parametrize("broken", [lambda data: data[:-1], lambda data: data[:7]])
def test_bytes_of_another_form_are_an_error_that_says_where(name, broken):
    record = records_of(VERSIONS[name])[3]
    with pytest.raises(StreamsError, match=r"changelog-topic of held .* at offset 3, with key b'zxcv': "):
        buffer_on(MemoryBackend()).restore([record._replace(value=broken(record.value))])


@pytest.mark.parametrize("header", [b"\x04", b"", None])
def test_an_unknown_version_is_an_error(header):
    record = Record(b"asdf", bytes.fromhex(VALUES_OF_VERSION_3[1]), 1, [("v", header)], 1)
    with pytest.raises(StreamsError, match=r"its version is .*, known are 0 to 3"):
        buffer_on(MemoryBackend()).restore([record])
