"""Which partition of `__consumer_offsets` holds a group."""

from __future__ import annotations


def java_hash_code(text: str) -> int:
    """Java's String.hashCode, as an unsigned number of 32 bits: over UTF-16 code units, not characters."""
    code = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(units), 2):
        code = (code * 31 + (units[index] << 8 | units[index + 1])) & 0xFFFFFFFF
    return code


def partition_for(group_id: str, partition_count: int) -> int:
    """The partition for `group_id`, the same that Apache Kafka chooses."""
    # Kafka's Utils.abs clears the sign, it does not negate.
    return (java_hash_code(group_id) & 0x7FFFFFFF) % partition_count
