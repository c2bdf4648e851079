from __future__ import annotations

import random
import sys
import tracemalloc
import zlib

import cramjam
import lz4.frame
import pytest

from barnabas.errors import (
    CorruptRecordError,
    DecompressionError,
    IllegalArgumentError,
    UnsupportedCompressionTypeError,
)
from barnabas.records import compress, decompress
from barnabas.records.compressed_frames import lz4_bound, xxhash32, zstd_bound

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
COMPRESSORS = CODECS[1:]
every_compressor = pytest.mark.parametrize("codec", COMPRESSORS)
MIXED = b"".join([random.Random(7).randbytes(1000) + bytes(5000) + b"words and words " * 300 for _ in range(40)])


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("data", [b"x", bytes(1), b"abc" * 50_000, MIXED], ids=["x", "zero", "abc", "mixed"])
def test_comes_back_as_it_was(codec: str, data: bytes) -> None:
    assert bytes(decompress(codec, compress(codec, data), len(data))) == data


@every_compressor
@pytest.mark.parametrize("buffer_type", [bytearray, memoryview])
def test_takes_any_buffer(codec: str, buffer_type: type[bytearray] | type[memoryview]) -> None:
    assert bytes(decompress(codec, buffer_type(compress(codec, buffer_type(MIXED))))) == MIXED


@every_compressor
def test_a_bomb_is_an_error_and_takes_no_memory(codec: str) -> None:
    bomb = compress(codec, bytes(64 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(DecompressionError, match="more than the 1000000 bytes allowed"):
            decompress(codec, bomb, 1_000_000)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


@every_compressor
def test_one_byte_over_the_limit_is_an_error(codec: str) -> None:
    data = compress(codec, MIXED)

    assert len(decompress(codec, data, len(MIXED))) == len(MIXED)
    with pytest.raises(DecompressionError):
        decompress(codec, data, len(MIXED) - 1)


@every_compressor
def test_every_truncation_is_an_error(codec: str) -> None:
    data = compress(codec, b"some text " * 20 + random.Random(1).randbytes(50))
    sizes = set(range(len(data)))
    if codec == "snappy":
        sizes.remove(16)  # a stream of no blocks, which is empty but well-formed
    for size in sizes:
        with pytest.raises(DecompressionError):
            decompress(codec, data[:size], 10_000)


@every_compressor
def test_flipped_bytes_give_an_error_or_other_bytes(codec: str) -> None:
    data = compress(codec, MIXED[:20_000])
    rng = random.Random(3)
    for _ in range(300):
        damaged = bytearray(data)
        damaged[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        try:
            assert len(decompress(codec, damaged, 100_000)) <= 100_000
        except DecompressionError:
            pass


def test_gzip_of_several_members_is_read_whole() -> None:
    assert decompress("gzip", compress("gzip", b"one ") + compress("gzip", b"two"), 7) == b"one two"
    with pytest.raises(DecompressionError):
        decompress("gzip", compress("gzip", b"one ") + compress("gzip", b"two"), 6)


def test_gzip_writes_a_gzip_file_with_the_level_asked_for() -> None:
    fast, best = compress("gzip", MIXED, 1), compress("gzip", MIXED, 9)

    assert fast[:2] == b"\x1f\x8b"
    assert len(best) < len(fast)
    assert zlib.decompress(best, 31) == MIXED


def test_snappy_is_framed_as_xerial_does_in_blocks_of_32_kib() -> None:
    data = compress("snappy", bytes(70_000))

    assert data[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    size = int.from_bytes(data[16:20], "big")
    assert bytes(cramjam.snappy.decompress_raw(data[20 : 20 + size])) == bytes(32 * 1024)


def test_raw_snappy_as_librdkafka_writes_it_is_read() -> None:
    assert bytes(decompress("snappy", bytes(cramjam.snappy.compress_raw(MIXED)))) == MIXED


def test_a_snappy_block_that_claims_too_much_is_refused_before_any_allocation() -> None:
    with pytest.raises(DecompressionError, match="claims to hold 268435455"):
        decompress("snappy", b"\xff\xff\xff\x7f" + b"\x00" * 10, 1 << 40)


def test_lz4_blocks_are_independent_as_java_demands() -> None:
    data = compress("lz4", MIXED)

    assert data[:4] == b"\x04\x22\x4d\x18"
    assert data[4] & 0x20  # block independence
    assert lz4.frame.decompress(data) == MIXED


@pytest.mark.parametrize(
    "settings",
    [
        {"block_linked": True},
        {"content_checksum": True},
        {"block_checksum": True},
        {"store_size": True},
        {"block_size": lz4.frame.BLOCKSIZE_MAX4MB},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_lz4_frames_of_every_kind_are_read(settings: dict[str, int]) -> None:
    assert bytes(decompress("lz4", lz4.frame.compress(MIXED, **settings))) == MIXED


def test_lz4_with_the_header_checksum_of_kafka_0_9_is_read_in_magic_0_only() -> None:
    frame = bytearray(compress("lz4", MIXED))
    header_end = 6 + (8 if frame[4] & 0x08 else 0)
    frame[header_end] = xxhash32(frame[:header_end]) >> 8 & 0xFF

    assert bytes(decompress("lz4", frame, magic=0)) == MIXED
    with pytest.raises(DecompressionError):
        decompress("lz4", frame, magic=1)
    assert bytes(decompress("lz4", compress("lz4", MIXED), magic=0)) == MIXED


def test_lz4_with_any_other_header_checksum_is_refused_in_magic_0_too() -> None:
    frame = bytearray(compress("lz4", b"x" * 100))
    header_end = 6 + (8 if frame[4] & 0x08 else 0)
    frame[header_end] ^= 0x55

    with pytest.raises(DecompressionError):
        decompress("lz4", frame, magic=0)


@pytest.mark.parametrize(
    ("data", "digest"),
    [
        (b"", 0x02CC5D05),
        (b"a", 0x550D7456),
        (b"abc", 0x32D153FF),
        (b"Nobody inspects the spammish repetition", 0xE2293B2F),
    ],
)
def test_xxhash32_gives_the_published_digests(data: bytes, digest: int) -> None:
    assert xxhash32(data) == digest


def test_frame_bounds_are_close_to_what_is_inside() -> None:
    for size in (0, 1, 1000, 65536, 65537, 1_000_000):
        data = random.Random(size).randbytes(size // 2) + bytes(size - size // 2)
        assert size <= lz4_bound(compress("lz4", data)) <= size + (1 << 18)
        assert size <= zstd_bound(compress("zstd", data)) <= size + (1 << 17)


def test_zstd_of_several_and_skippable_frames_is_read() -> None:
    skippable = (0x184D2A50).to_bytes(4, "little") + (3).to_bytes(4, "little") + b"xyz"

    assert bytes(decompress("zstd", compress("zstd", b"one ") + skippable + compress("zstd", b"two"))) == b"one two"


def test_zstd_of_java_without_the_content_size_is_read() -> None:
    stream = cramjam.zstd.Compressor()
    parts = []
    for start in range(0, len(MIXED), 10_000):
        stream.compress(MIXED[start : start + 10_000])
        parts.append(bytes(stream.flush()))
    parts.append(bytes(stream.finish()))

    assert bytes(decompress("zstd", b"".join(parts))) == MIXED


def test_highly_compressible_data_is_read_within_the_limit() -> None:
    for codec in COMPRESSORS:
        assert len(decompress(codec, compress(codec, bytes(30 << 20)), 30 << 20)) == 30 << 20


@every_compressor
def test_damaged_data_counts_as_a_corrupt_record(codec: str) -> None:
    with pytest.raises(CorruptRecordError):
        decompress(codec, b"this is no compressed data")


@pytest.mark.parametrize("codec", ["snappy", "lz4", "zstd"])
def test_a_missing_library_says_how_to_get_it(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = compress(codec, b"x")
    monkeypatch.setitem(sys.modules, "cramjam", None)

    with pytest.raises(UnsupportedCompressionTypeError, match=r"pip install 'barnabas\[compression\]'"):
        compress(codec, b"x")
    with pytest.raises(UnsupportedCompressionTypeError, match=r"pip install 'barnabas\[compression\]'"):
        decompress(codec, data)


def test_gzip_needs_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cramjam", None)

    assert decompress("gzip", compress("gzip", b"x")) == b"x"


def test_an_unknown_codec_is_named() -> None:
    with pytest.raises(IllegalArgumentError, match="'lzo'"):
        compress("lzo", b"")
    with pytest.raises(IllegalArgumentError, match="'lzo'"):
        decompress("lzo", b"")


def test_kafkas_default_lz4_level_is_the_fast_compressor() -> None:
    assert compress("lz4", MIXED, 9) == compress("lz4", MIXED)
    assert len(compress("lz4", MIXED, 12)) < len(compress("lz4", MIXED))
