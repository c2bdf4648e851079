"""A group of any kind is copied whole, and a change of the copy is none of the group."""

from __future__ import annotations

import pytest

from barnabas.broker.groups.classic_group import ClassicGroup
from barnabas.broker.groups.consumer_group import ConsumerGroup
from barnabas.broker.groups.group import Group
from barnabas.broker.groups.share_group import ShareGroup
from barnabas.broker.groups.streams_group import StreamsGroup

KINDS = [ClassicGroup("g", 1), ConsumerGroup("g"), ShareGroup("g"), StreamsGroup("g")]


def attributes(group: Group) -> dict[str, object]:
    """All that a group is made of, by name."""
    names = [name for kind in type(group).__mro__ for name in getattr(kind, "__slots__", ())]
    return {name: getattr(group, name) for name in names}


@pytest.mark.parametrize("group", KINDS, ids=lambda group: type(group).__name__)
def test_a_copy_has_all_that_the_group_has_and_shares_nothing_that_changes(group: Group) -> None:
    twin = group.copy()

    assert type(twin) is type(group)
    assert attributes(twin) == attributes(group)
    assert {"group_id", "members"} <= attributes(twin).keys()
    changeable = [name for name, value in attributes(group).items() if isinstance(value, dict | set | list)]
    assert changeable
    assert [name for name in changeable if getattr(twin, name) is getattr(group, name)] == []
