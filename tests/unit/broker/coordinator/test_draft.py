"""Draft: records and what they do to the state are one act."""

from __future__ import annotations

import pytest

from barnabas import errors
from barnabas.broker.coordinator.draft import Draft


def test_changes_are_made_in_order_with_the_offsets_of_their_records() -> None:
    seen: list[object] = []
    draft = Draft([(b"tombstone", None)])
    draft.put((b"a", b"1"), lambda offset: seen.append(("a", offset)))
    draft.put((b"b", b"2"))
    draft.put((b"c", b"3"), lambda offset: seen.append(("c", offset)))
    draft.afterwards(lambda: seen.append("afterwards"))

    draft.commit(lambda records: 100 if len(records) == 4 else -1)

    assert seen == [("a", 101), ("c", 103), "afterwards"]


def test_what_cannot_be_written_never_was() -> None:
    seen: list[object] = []
    draft = Draft()
    draft.put((b"a", b"1"), seen.append)
    draft.afterwards(lambda: seen.append("afterwards"))

    def full(records: object) -> int:
        raise errors.KafkaStorageError("full")

    with pytest.raises(errors.KafkaStorageError):
        draft.commit(full)
    assert seen == []


def test_without_records_nothing_is_written() -> None:
    seen: list[object] = []
    draft = Draft()
    draft.afterwards(lambda: seen.append("afterwards"))

    draft.commit(lambda records: pytest.fail("there is nothing to write"))

    assert seen == ["afterwards"]
