"""The tables of the records of groups: complete, apart from each other, and strict about what they read."""

from __future__ import annotations

import pytest

from barnabas.broker.groups.coordinator_records import GROUP_METADATA, LEGACY_OFFSET_COMMIT, OFFSET_COMMIT
from barnabas.broker.groups.group_kinds import KIND_OF, RECORD_TYPES, table_of
from barnabas.broker.groups.record_table import group_id_of, group_record
from barnabas.errors import ProtocolError


def test_a_table_has_the_types_of_its_kind_and_no_type_has_two_meanings() -> None:
    assert {kind: table_of(kind).effects.keys() for kind in RECORD_TYPES} == RECORD_TYPES
    assert len(KIND_OF) == sum(map(len, RECORD_TYPES.values()))
    assert not KIND_OF.keys() & {LEGACY_OFFSET_COMMIT, OFFSET_COMMIT, GROUP_METADATA}
    assert {kind: table_of(kind).kind.TYPE for kind in RECORD_TYPES} == {kind: kind for kind in RECORD_TYPES}


@pytest.mark.parametrize("record_type", sorted(KIND_OF))
def test_a_key_tells_its_group_and_a_value_without_a_version_or_of_a_later_one_is_refused(record_type: int) -> None:
    table = table_of(KIND_OF[record_type])
    effect = table.effects[record_type]
    key = effect.key("g")  # type: ignore[call-arg]  # the first field of every key

    written, _ = group_record(key)

    assert int.from_bytes(written[:2], "big") == record_type
    assert group_id_of(table.key(record_type, written)) == "g"
    for value in (b"", b"\0", b"\0\1" + b"\0" * 99):
        with pytest.raises(ProtocolError, match="no version, or not 0"):
            table.replay(table.kind("g"), key, value)
