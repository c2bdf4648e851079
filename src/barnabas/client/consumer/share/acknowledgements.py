"""What is said of delivered records: the kinds of acknowledgement, and runs of offsets that have one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from barnabas.errors import IllegalArgumentError

if TYPE_CHECKING:
    from barnabas.errors import KafkaError


class AcknowledgeType(StrEnum):
    """What becomes of a record that a share group delivered (KIP-932, KIP-1222)."""

    #: It was processed.
    ACCEPT = "accept"
    #: It was not processed, and is to be delivered again.
    RELEASE = "release"
    #: It cannot be processed, and is not to be delivered again.
    REJECT = "reject"
    #: It is still being processed: its acquisition lock begins anew, and `poll` returns it again.
    RENEW = "renew"


GAP: Final = 0
"""What is said of an offset that was acquired and has no record: compacted away, or a transaction's marker."""
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
IDS: Final[Mapping[AcknowledgeType, int]] = {
    AcknowledgeType.ACCEPT: ACCEPT,
    AcknowledgeType.RELEASE: RELEASE,
    AcknowledgeType.REJECT: REJECT,
    AcknowledgeType.RENEW: RENEW,
}
# Runs from this length on are a batch with one type; shorter ones share a batch that lists a type for each offset.
_LONG: Final = 10

#: First and last offset.
Range = tuple[int, int]


class Run(NamedTuple):
    """Offsets that follow each other, of which the same is said (`GAP`, or the id of a type)."""

    first: int
    last: int
    type_id: int


def as_acknowledge_type(value: Any, name: str = "type") -> AcknowledgeType:
    """Return a kind of acknowledgement, which may be given by name."""
    try:
        return AcknowledgeType(value.lower())
    except (ValueError, AttributeError):
        known = ", ".join(AcknowledgeType)
        raise IllegalArgumentError(f"{name} is {value!r}; it must be one of {known}") from None


class Acknowledgements:
    """What is to be said of one partition's records: runs in the order of their offsets.

    `given_back` are those among them that the application never got.
    """

    __slots__ = ("error", "given_back", "runs")

    def __init__(self, runs: Iterable[Run], given_back: Iterable[Range] = ()) -> None:
        self.runs = joined(runs)
        self.given_back = list(given_back)
        #: What the broker said against them.
        self.error: KafkaError | None = None

    def __len__(self) -> int:
        return sum(run.last - run.first + 1 for run in self.runs)

    @property
    def has_renewals(self) -> bool:
        """Whether some record is to be renewed."""
        return any(run.type_id == RENEW for run in self.runs)

    def merge(self, later: Acknowledgements) -> None:
        """Add what was said later; of an offset that both have, that counts."""
        runs = sorted((*self.runs, *later.runs))
        if any(run.last >= following.first for run, following in pairwise(runs)):
            given = (*self.runs, *later.runs)
            types = {offset: run.type_id for run in given for offset in offsets_of(run)}
            runs = [Run(offset, offset, types[offset]) for offset in sorted(types)]
        self.runs = joined(runs)
        self.given_back += later.given_back

    def offsets(self) -> set[int]:
        """Return the offsets of which the application is told."""
        told = {offset for run in self.runs for offset in offsets_of(run)}
        return told.difference(*map(offsets_of, self.given_back))

    def batches(self) -> list[tuple[int, int, list[int]]]:
        """Return them as requests have them: first and last offset, and one type for all or one for each offset."""
        found: list[tuple[int, int, list[int]]] = []
        for first, last, type_id in self.runs:
            length = last - first + 1
            if length >= _LONG:
                found.append((first, last, [type_id]))
            elif found and found[-1][1] + 1 == first and len(found[-1][2]) == found[-1][1] - found[-1][0] + 1:
                begin, _, types = found[-1]
                types.extend([type_id] * length)
                found[-1] = (begin, last, types)
            else:
                found.append((first, last, [type_id] * length))
        return [(first, last, types[:1] if len(set(types)) == 1 else types) for first, last, types in found]


def offsets_of(run: Run | Range) -> range:
    """Return the offsets from the first to the last."""
    return range(run[0], run[1] + 1)


def joined(runs: Iterable[Run]) -> list[Run]:
    """Return the runs in order, neighbours of one type as one."""
    found: list[Run] = []
    for run in sorted(runs):
        if found and found[-1].type_id == run.type_id and found[-1].last + 1 == run.first:
            found[-1] = Run(found[-1].first, run.last, run.type_id)
        else:
            found.append(run)
    return found


def without(ranges: Iterable[Range], taken: Iterable[Range]) -> list[Range]:
    """Return ranges without the offsets of others; both are in order."""
    found: list[Range] = []
    gone = list(taken)
    for first, last in ranges:
        for begin, end in gone:
            if end < first:
                continue
            if begin > last:
                break
            if begin > first:
                found.append((first, begin - 1))
            first = end + 1
        if first <= last:
            found.append((first, last))
    return found


def ranges_of(offsets: Iterable[int]) -> list[Range]:
    """Return the ranges that some offsets, in order, make."""
    found: list[Range] = []
    for offset in offsets:
        if found and found[-1][1] + 1 == offset:
            found[-1] = (found[-1][0], offset)
        else:
            found.append((offset, offset))
    return found
