"""Compression of record batches: gzip, snappy, lz4 and zstd, each in the framing that Kafka's Java client writes.

gzip comes with Python. The others are `cramjam`'s, from the extra `compression`, loaded when first used.
Decompression is bounded: what a frame may grow to is worked out from its block headers before anything is allocated.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from barnabas.errors import DecompressionError, IllegalArgumentError, UnsupportedCompressionTypeError
from barnabas.records import compressed_frames as frames

if TYPE_CHECKING:
    from barnabas.records.types import Buffer

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
"""The names of the codecs; the position of each is its id in the attributes of a batch."""

MAX_DECOMPRESSED_SIZE = 256 * 1024 * 1024
"""How many bytes one batch may decompress to where the caller sets no other bound."""

_XERIAL_BLOCK_SIZE = 32 * 1024
# Kafka's level 9 for lz4 is its default, and means the fast compressor, lz4's level 1 (KIP-390).
_DEFAULT_LEVELS = {"gzip": -1, "lz4": 1, "zstd": 3}
_KAFKA_LZ4_DEFAULT_LEVEL = 9
# All other levels of Kafka's are the high compressor's, in which 1 searches as much as 2 does; here 1 is the fast one.
_LOWEST_HIGH_LZ4_LEVEL = 2


def compress(codec: str, data: Buffer, level: int | None = None) -> bytes:
    """Compress `data`; `level` is the codec's own (KIP-390), None its default, and is ignored by snappy.

    Raises `UnsupportedCompressionTypeError` where the codec's library is missing.
    """
    compressor = _COMPRESSORS.get(codec)
    if compressor is None:
        _unknown_codec(codec)
    if level is None or (codec == "lz4" and level == _KAFKA_LZ4_DEFAULT_LEVEL):
        level = _DEFAULT_LEVELS.get(codec, 0)
    elif codec == "lz4":
        level = max(level, _LOWEST_HIGH_LZ4_LEVEL)
    return compressor(data, level)


def decompress(
    codec: str, data: Buffer, max_size: int = MAX_DECOMPRESSED_SIZE, *, magic: int = 2
) -> bytes | memoryview:
    """Decompress `data` to at most `max_size` bytes.

    `magic` is the version of the batch: Kafka 0.9 and older (0) wrote lz4 frames with a wrong header checksum, which is
    accepted there. Raises `DecompressionError` for damaged data and for more than `max_size` bytes, and
    `UnsupportedCompressionTypeError` where the codec's library is missing.
    """
    if codec == "lz4" and magic == 0:
        data = frames.repair_lz4_header(data)
    decompressor = _DECOMPRESSORS.get(codec)
    if decompressor is None:
        _unknown_codec(codec)
    return decompressor(data, max_size)


def codec_name(attributes: int) -> str:
    """Return the codec that the lowest three bits of a batch's attributes name."""
    codec = attributes & 7
    if codec >= len(CODECS):
        raise DecompressionError(f"the batch is compressed with codec {codec}, which Kafka does not define")
    return CODECS[codec]


def _unknown_codec(codec: str) -> NoReturn:
    raise IllegalArgumentError(f"unknown compression type {codec!r}; Kafka has {', '.join(CODECS)}")


def _cramjam(codec: str) -> Any:
    try:
        import cramjam
    except ImportError:
        raise UnsupportedCompressionTypeError(
            f"{codec} compression needs the package cramjam: pip install 'barnabas[compression]'"
        ) from None
    return getattr(cramjam, codec)


def _too_large(codec: str, max_size: int) -> DecompressionError:
    return DecompressionError(f"{codec} data decompresses to more than the {max_size} bytes allowed for one batch")


def _compress_none(data: Buffer, _level: int) -> bytes:
    return bytes(data)


def _compress_gzip(data: Buffer, level: int) -> bytes:
    stream = zlib.compressobj(level, zlib.DEFLATED, 31)
    return stream.compress(data) + stream.flush()


def _compress_snappy(data: Buffer, _level: int) -> bytes:
    snappy = _cramjam("snappy")
    view = memoryview(data)
    parts: list[Any] = [frames.XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_SIZE):
        block = snappy.compress_raw(view[start : start + _XERIAL_BLOCK_SIZE])
        parts += (len(block).to_bytes(4, "big"), block)
    return b"".join(parts)


def _compress_lz4(data: Buffer, level: int) -> bytes:
    # Java reads only independent blocks.
    stream = _cramjam("lz4").Compressor(level=level, content_checksum=False, block_linked=False)
    stream.compress(bytes(data))
    return bytes(stream.finish())


def _compress_zstd(data: Buffer, level: int) -> bytes:
    return bytes(_cramjam("zstd").compress(data, level))


def _decompress_none(data: Buffer, max_size: int) -> bytes | memoryview:
    if len(data) > max_size:
        raise _too_large("uncompressed", max_size)
    return memoryview(data)


def _decompress_gzip(data: Buffer, max_size: int) -> bytes:
    parts: list[bytes] = []
    room = max_size
    rest: Buffer = data
    # A gzip file is one or more members, one after the other (RFC 1952, 2.2).
    while len(rest):
        stream = zlib.decompressobj(31)
        try:
            part = stream.decompress(rest, room + 1)
        except zlib.error as error:
            raise DecompressionError(f"gzip data is damaged: {error}") from None
        room -= len(part)
        if room < 0:
            raise _too_large("gzip", max_size)
        if not stream.eof:
            raise DecompressionError("gzip data ends too early")
        parts.append(part)
        rest = stream.unused_data
    if not parts:
        raise DecompressionError("gzip data is empty")
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _decompress_snappy(data: Buffer, max_size: int) -> memoryview:
    blocks, sizes = frames.snappy_blocks(memoryview(data))
    total = sum(sizes)
    if total > max_size:
        raise _too_large("snappy", max_size)
    decompress_into = _cramjam("snappy").decompress_raw_into
    output = memoryview(bytearray(total))
    position = 0
    for block, size in zip(blocks, sizes, strict=True):
        if size:
            _call("snappy", decompress_into, block, output[position : position + size])
        position += size
    return output


def _decompress_lz4(data: Buffer, max_size: int) -> memoryview:
    return _decompress_frame("lz4", data, frames.lz4_bound(data), max_size)


def _decompress_zstd(data: Buffer, max_size: int) -> memoryview:
    return _decompress_frame("zstd", data, frames.zstd_bound(data), max_size)


def _decompress_frame(codec: str, data: Buffer, bound: int, max_size: int) -> memoryview:
    """Decompress into a buffer sized by the block headers; where these claim much, grow step by step instead."""
    decompress_into = _cramjam(codec).decompress_into
    limit = min(bound, max_size)
    capacity = min(limit, max(64 * len(data), 256 * 1024))
    while True:
        output = bytearray(capacity)
        try:
            size = _call(codec, decompress_into, data, output)
        except DecompressionError:
            if capacity < limit:
                capacity = min(limit, 8 * capacity)
                continue
            if bound > max_size:
                raise _too_large(codec, max_size) from None
            raise
        return memoryview(output)[:size]


def _call(codec: str, function: Callable[[Any, Any], int], data: Buffer, output: Any) -> int:
    try:
        return function(data, output)
    except Exception as error:  # noqa: BLE001 - cramjam raises its own class, which must not be imported here
        raise DecompressionError(f"{codec} data is damaged: {error}") from None


_COMPRESSORS: dict[str, Callable[[Any, int], bytes]] = {
    "none": _compress_none,
    "gzip": _compress_gzip,
    "snappy": _compress_snappy,
    "lz4": _compress_lz4,
    "zstd": _compress_zstd,
}
_DECOMPRESSORS: dict[str, Callable[[Any, int], bytes | memoryview]] = {
    "none": _decompress_none,
    "gzip": _decompress_gzip,
    "snappy": _decompress_snappy,
    "lz4": _decompress_lz4,
    "zstd": _decompress_zstd,
}
