"""`barnabas log dump --verify`: whether the files of a segment fit together."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise

from barnabas.broker.log.log_file_utils import offset_from_file_name
from barnabas.broker.log.os_filesystem import OsFileSystem
from barnabas.cli.log_entries import BATCH, PROBLEM, Item, index_entries, segment, time_index_entries


def verify_segment(filesystem: OsFileSystem, path: str) -> Iterator[str]:
    """Return what is wrong with a segment and its indexes, one sentence each; its records are decoded, too."""
    batches: list[Item] = []
    for item in segment(filesystem, path, records=True):
        if item.kind == PROBLEM:
            yield item.fields["reason"]
        elif item.kind == BATCH:
            batches.append(item)
    yield from _offset_problems(path, batches)
    stem = os.path.splitext(path)[0]
    if os.path.exists(f"{stem}.index"):
        yield from _index_problems(filesystem, f"{stem}.index", batches)
    if os.path.exists(f"{stem}.timeindex"):
        yield from _time_index_problems(filesystem, f"{stem}.timeindex", batches)


def _offset_problems(path: str, batches: list[Item]) -> Iterator[str]:
    base = offset_from_file_name(os.path.basename(path))
    if batches and batches[0].fields["baseOffset"] < base:
        yield f"{path} begins at offset {batches[0].fields['baseOffset']}, before that of its name"
    for one, other in pairwise(batches):
        if other.fields["baseOffset"] <= one.fields["lastOffset"]:
            yield (
                f"{path} at byte {other.fields['position']}: offset {other.fields['baseOffset']} follows "
                f"{one.fields['lastOffset']}"
            )


def _index_problems(filesystem: OsFileSystem, path: str, batches: list[Item]) -> Iterator[str]:
    yield from _size_problem(path, 8)
    at_position = {batch.fields["position"]: batch for batch in batches}
    last = -1
    for item in index_entries(filesystem, path):
        offset, position = item.fields["offset"], item.fields["position"]
        batch = at_position.get(position)
        if offset <= last:
            yield f"{path}: offset {offset} follows {last}"
        if batch is None:
            yield f"{path}: no batch begins at byte {position}, where offset {offset} should be"
        elif batch.fields["lastOffset"] != offset:
            yield f"{path}: the batch at byte {position} ends with {batch.fields['lastOffset']}, not with {offset}"
        last = offset


def _time_index_problems(filesystem: OsFileSystem, path: str, batches: list[Item]) -> Iterator[str]:
    yield from _size_problem(path, 12)
    ends = [batch.fields["lastOffset"] for batch in batches]
    largest: list[int] = []
    for batch in batches:
        largest.append(max(batch.fields["maxTimestamp"], largest[-1] if largest else -1))
    last = (-1, -1)
    for item in time_index_entries(filesystem, path):
        timestamp, offset = item.fields["timestamp"], item.fields["offset"]
        if (timestamp, offset) <= last or offset < last[1]:
            yield f"{path}: timestamp {timestamp} at offset {offset} follows {last[0]} at {last[1]}"
        upto = bisect_right(ends, offset)
        if upto and largest[upto - 1] > timestamp:
            yield f"{path}: {timestamp} should be the largest up to offset {offset}, but {largest[upto - 1]} is there"
        last = (timestamp, offset)


def _size_problem(path: str, entry_size: int) -> Iterator[str]:
    size = os.path.getsize(path)
    if size % entry_size:
        yield f"{path}: {size} bytes are no multiple of {entry_size}"
