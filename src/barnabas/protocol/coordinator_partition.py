"""Which partition of a coordinator's topic holds a group, or a transactional id."""

from __future__ import annotations


def java_hash_code(text: str) -> int:
    """Java's String.hashCode, a signed number of 32 bits: over UTF-16 code units, not characters."""
    code = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(units), 2):
        code = (code * 31 + (units[index] << 8 | units[index + 1])) & 0xFFFFFFFF
    return code - (1 << 32) if code & 0x80000000 else code


def partition_for(id: str, partition_count: int) -> int:
    """Return the partition for an id, the same that Apache Kafka chooses."""
    code = java_hash_code(id)
    # Java's int has no positive counterpart for its smallest value; Kafka's Utils.abs makes it 0.
    return 0 if code == -(1 << 31) else abs(code) % partition_count
