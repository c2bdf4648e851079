"""The names of files and directories in a data directory, Apache Kafka's (LogFileUtils, LocalLog)."""

from __future__ import annotations

from barnabas.protocol.topic_partition import TopicPartition

LOG_FILE_SUFFIX = ".log"
INDEX_FILE_SUFFIX = ".index"
TIME_INDEX_FILE_SUFFIX = ".timeindex"
TXN_INDEX_FILE_SUFFIX = ".txnindex"
PRODUCER_SNAPSHOT_FILE_SUFFIX = ".snapshot"
DELETED_FILE_SUFFIX = ".deleted"
CLEANED_FILE_SUFFIX = ".cleaned"
SWAP_FILE_SUFFIX = ".swap"
TEMPORARY_FILE_SUFFIX = ".tmp"
SEGMENT_SUFFIXES = (LOG_FILE_SUFFIX, INDEX_FILE_SUFFIX, TIME_INDEX_FILE_SUFFIX, TXN_INDEX_FILE_SUFFIX)

DELETE_DIR_SUFFIX = "-delete"
FUTURE_DIR_SUFFIX = "-future"
STRAY_DIR_SUFFIX = "-stray"
MARKED_DIR_SUFFIXES = (DELETE_DIR_SUFFIX, FUTURE_DIR_SUFFIX, STRAY_DIR_SUFFIX)

MAX_NAME_LENGTH = 255


def file_name(offset: int, suffix: str) -> str:
    """Return the file of a segment or snapshot: its offset as 20 digits, then the suffix."""
    return f"{offset:020d}{suffix}"


def offset_from_file_name(name: str) -> int:
    """Return the offset in front of the first dot; -1 where there is none."""
    digits = name.partition(".")[0]
    return int(digits) if digits.isdecimal() else -1


def log_directory_name(topic_partition: TopicPartition) -> str:
    """Return the partition's directory: `topic-partition`."""
    return f"{topic_partition.topic}-{topic_partition.partition}"


def marked_directory_name(topic_partition: TopicPartition, unique_id: str, suffix: str) -> str:
    """Return the name under which a directory waits for its deletion: `topic-partition.uniqueid-delete`.

    A long topic name is cut so that the whole stays within the 255 bytes of a file name; `unique_id` is a random
    uuid as 32 hexadecimal digits.
    """
    tail = f"-{topic_partition.partition}.{unique_id}{suffix}"
    return topic_partition.topic[: MAX_NAME_LENGTH - len(tail)] + tail


def parse_directory_name(name: str) -> TopicPartition | None:
    """Return the partition that a directory holds, marked for deletion or not.

    None for a directory of something else.
    """
    if name.endswith(MARKED_DIR_SUFFIXES):
        name, dot, _ = name.rpartition(".")
        if not dot:
            return None
    topic, dash, partition = name.rpartition("-")
    if not topic or not dash or not partition.isdecimal():
        return None
    return TopicPartition(topic, int(partition))
