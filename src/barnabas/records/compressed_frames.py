"""The outer form of compressed data: how large a frame may become, read from its block headers alone.

Sources: the LZ4 frame format 1.6.4, RFC 8878 (zstd), snappy's format description and xerial's snappy-java framing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.errors import DecompressionError

if TYPE_CHECKING:
    from barnabas.records.types import Buffer

XERIAL_HEADER = b"\x82SNAPPY\x00" + (1).to_bytes(4, "big") + (1).to_bytes(4, "big")
"""Magic, version and lowest compatible version of snappy-java's stream."""

_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_BLOCK_SIZES = {4: 1 << 16, 5: 1 << 18, 6: 1 << 20, 7: 1 << 22}
_LZ4_MAX_RATIO = 255
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZSTD_BLOCK_SIZE = 1 << 17
_SNAPPY_MAX_RATIO = 64
_MASK = 0xFFFFFFFF


def snappy_blocks(data: memoryview) -> tuple[list[memoryview], list[int]]:
    """Return the raw snappy blocks of `data` and the size of each when decompressed.

    Data without xerial's header is one raw block, as librdkafka writes it.
    """
    if data[: len(XERIAL_HEADER) - 8] != XERIAL_HEADER[:-8]:
        return [data], [_snappy_size(data)]
    blocks: list[memoryview] = []
    position = len(XERIAL_HEADER)
    if len(data) < position:
        raise DecompressionError("snappy data ends within the header of its stream")
    while position < len(data):
        size = int.from_bytes(data[position : position + 4], "big")
        block = data[position + 4 : position + 4 + size]
        if size == 0 or len(block) != size:
            raise DecompressionError(f"snappy block at {position} claims {size} bytes, {len(block)} are there")
        blocks.append(block)
        position += 4 + size
    return blocks, [_snappy_size(block) for block in blocks]


def _snappy_size(block: memoryview) -> int:
    size = 0
    for index, byte in enumerate(block[:5]):
        size |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            if size > _SNAPPY_MAX_RATIO * len(block):
                raise DecompressionError(f"snappy block of {len(block)} bytes claims to hold {size}")
            return size
    raise DecompressionError("snappy block does not begin with its size")


def lz4_bound(data: Buffer) -> int:
    """How many bytes the one lz4 frame in `data` decompresses to at most."""
    flags, block_size, position = _lz4_header(data)
    block_checksum = 4 if flags & 0x10 else 0
    bound = 0
    while True:
        header = int.from_bytes(data[position : position + 4], "little")
        position += 4
        if position > len(data):
            raise DecompressionError("lz4 frame has no end mark")
        if header == 0:
            break
        size = header & 0x7FFFFFFF
        bound += min(block_size, size if header >> 31 else _LZ4_MAX_RATIO * size)
        position += size + block_checksum
    if position + (4 if flags & 0x04 else 0) != len(data):
        raise DecompressionError("lz4 data does not end where its frame ends")
    return bound


def _lz4_header(data: Buffer) -> tuple[int, int, int]:
    """Return flags, the largest size of a block, and the position of the first block."""
    if len(data) < 7 or data[:4] != _LZ4_MAGIC:
        raise DecompressionError("lz4 data does not begin with a frame")
    flags = data[4]
    block_size = _LZ4_BLOCK_SIZES.get(data[5] >> 4 & 7)
    if flags >> 6 != 1 or block_size is None:
        raise DecompressionError(f"lz4 frame has unknown flags {flags:#04x} {data[5]:#04x}")
    return flags, block_size, 7 + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0)


def repair_lz4_header(data: Buffer) -> bytes:
    """Set the header checksum of an lz4 frame right.

    Kafka before 0.10 took it over the magic bytes too (KAFKA-3160). A checksum that is neither right nor wrong in this
    way is left as it is, for the decompressor to refuse.
    """
    _flags, _block_size, start = _lz4_header(data)
    if start > len(data):
        raise DecompressionError("lz4 data ends within the header of its frame")
    frame = bytearray(data)
    if frame[start - 1] == xxhash32(frame[: start - 1]) >> 8 & 0xFF:
        frame[start - 1] = xxhash32(frame[4 : start - 1]) >> 8 & 0xFF
    return bytes(frame)


def xxhash32(data: Buffer) -> int:
    """XXH32 with seed 0, for the few bytes of a frame header."""
    prime1, prime2, prime3, prime4, prime5 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1
    position = 0
    value = prime5
    if len(data) >= 16:
        lanes = [(prime1 + prime2) & _MASK, prime2, 0, -prime1 & _MASK]
        while position + 16 <= len(data):
            for lane in range(4):
                word = int.from_bytes(data[position + 4 * lane : position + 4 * lane + 4], "little")
                lanes[lane] = _rotate(lanes[lane] + word * prime2, 13) * prime1 & _MASK
            position += 16
        value = sum(_rotate(lane, turn) for lane, turn in zip(lanes, (1, 7, 12, 18), strict=True))
    value = (value + len(data)) & _MASK
    while position + 4 <= len(data):
        word = int.from_bytes(data[position : position + 4], "little")
        value = _rotate(value + word * prime3, 17) * prime4 & _MASK
        position += 4
    for byte in data[position:]:
        value = _rotate(value + byte * prime5, 11) * prime1 & _MASK
    value = (value ^ value >> 15) * prime2 & _MASK
    value = (value ^ value >> 13) * prime3 & _MASK
    return value ^ value >> 16


def _rotate(value: int, turn: int) -> int:
    value &= _MASK
    return (value << turn | value >> (32 - turn)) & _MASK


def zstd_bound(data: Buffer) -> int:
    """How many bytes the zstd frames in `data` decompress to at most."""
    bound = position = 0
    while position < len(data):
        magic = data[position : position + 4]
        if magic == _ZSTD_MAGIC:
            size, position = _zstd_frame(data, position + 4)
            bound += size
        elif len(magic) == 4 and int.from_bytes(magic, "little") & 0xFFFFFFF0 == 0x184D2A50:  # a skippable frame
            position += 8 + int.from_bytes(data[position + 4 : position + 8], "little")
        else:
            raise DecompressionError("zstd data does not begin with a frame")
    if position != len(data) or not len(data):
        raise DecompressionError("zstd data ends within a frame")
    return bound


def _zstd_frame(data: Buffer, position: int) -> tuple[int, int]:
    """Return the largest size that the frame's blocks can hold, and the position of its end."""
    descriptor = int.from_bytes(data[position : position + 1], "little")
    single_segment = descriptor >> 5 & 1
    content_size_bytes = (single_segment, 2, 4, 8)[descriptor >> 6]
    position += 1 + (1 - single_segment) + (0, 1, 2, 4)[descriptor & 3]
    content_size = int.from_bytes(data[position : position + content_size_bytes], "little")
    content_size += 256 if content_size_bytes == 2 else 0
    position += content_size_bytes
    bound = 0
    last = 0
    while not last:
        if position + 3 > len(data):
            raise DecompressionError("zstd data ends within a frame")
        header = int.from_bytes(data[position : position + 3], "little")
        last, kind, size = header & 1, header >> 1 & 3, header >> 3
        bound += min(size, _ZSTD_BLOCK_SIZE) if kind < 2 else _ZSTD_BLOCK_SIZE
        position += 3 + (1 if kind == 1 else size)
    position += 4 if descriptor & 0x04 else 0
    return (min(bound, content_size) if content_size_bytes else bound), position
