"""Combined batches say of each offset what the batches say that count most, and nothing twice."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from barnabas.broker.share.coordinator.combine_state_batches import (
    combine_state_batches,
    merge_state_batches,
)
from barnabas.broker.share.persister import StateBatch

BATCHES = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 8), st.sampled_from([0, 2, 4]), st.integers(1, 3)).map(
        lambda drawn: StateBatch(drawn[0], drawn[0] + drawn[1], drawn[2], drawn[3])
    ),
    max_size=12,
)


@given(BATCHES, st.integers(-1, 35))
def test_every_offset_has_what_counts_most(batches: list[StateBatch], start: int) -> None:
    expected: dict[int, tuple[int, int]] = {}
    for batch in batches:
        for offset in range(max(batch.first_offset, start), batch.last_offset + 1):
            expected[offset] = max(expected.get(offset, (0, 0)), (batch.delivery_count, batch.delivery_state))
    combined = combine_state_batches(batches, start)
    found = {
        offset: (batch.delivery_count, batch.delivery_state)
        for batch in combined
        for offset in range(batch.first_offset, batch.last_offset + 1)
    }
    assert found == expected
    assert sum(batch.last_offset - batch.first_offset + 1 for batch in combined) == len(expected)
    for before, after in pairwise(combined):
        is_adjacent = before.last_offset + 1 == after.first_offset
        assert before.last_offset < after.first_offset
        assert not (is_adjacent and before[2:] == after[2:])


@given(BATCHES, BATCHES, st.integers(-1, 35), st.integers(-1, 35))
def test_what_an_update_touches_is_all_that_has_to_be_combined(
    before: list[StateBatch], update: list[StateBatch], was: int, start: int
) -> None:
    state = combine_state_batches(before, was)
    assert merge_state_batches(state, update, start) == combine_state_batches([*state, *update], start)
