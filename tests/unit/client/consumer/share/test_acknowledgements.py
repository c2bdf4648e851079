"""What is said of records, as the broker reads it: the same for each offset, in few batches."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.client.consumer.share.acknowledgements import Acknowledgements, Run, ranges_of, without

SAID = st.dictionaries(st.integers(0, 60), st.integers(0, 4), min_size=1)


def of(said: dict[int, int]) -> Acknowledgements:
    return Acknowledgements(Run(offset, offset, kind) for offset, kind in said.items())


def read(acknowledgements: Acknowledgements) -> dict[int, int]:
    """What a broker understands; offsets ascend, and a batch has one type or one for each offset."""
    found: dict[int, int] = {}
    for first, last, types in acknowledgements.batches():
        assert not found or first > max(found)
        assert len(types) in (1, last - first + 1)
        found |= {offset: types[min(at, len(types) - 1)] for at, offset in enumerate(range(first, last + 1))}
    return found


@settings(max_examples=40, deadline=None)
@given(said=SAID, later=SAID)
def test_batches_say_what_was_said_and_what_comes_later_counts(said: dict[int, int], later: dict[int, int]) -> None:
    acknowledgements = of(said)
    assert read(acknowledgements) == said
    acknowledgements.merge(of(later))
    assert read(acknowledgements) == said | later
    assert acknowledgements.offsets() == said.keys() | later.keys()
    assert len(acknowledgements) == len(said | later)


@settings(max_examples=40, deadline=None)
@given(offsets=st.sets(st.integers(0, 40)), gone=st.sets(st.integers(0, 40)))
def test_ranges_without_others(offsets: set[int], gone: set[int]) -> None:
    left = without(ranges_of(sorted(offsets)), ranges_of(sorted(gone)))
    assert [offset for first, last in left for offset in range(first, last + 1)] == sorted(offsets - gone)


def test_many_records_of_one_kind_are_one_batch_of_one_type() -> None:
    assert Acknowledgements([Run(0, 999_999, 1)]).batches() == [(0, 999_999, [1])]


def test_kinds_that_alternate_share_a_batch() -> None:
    assert len(of({offset: 1 + offset % 2 for offset in range(500)}).batches()) == 1
