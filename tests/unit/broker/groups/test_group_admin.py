"""ListGroups, DescribeGroups and DeleteGroups on the coordinator."""

from __future__ import annotations

import pytest

from barnabas import errors
from tests.unit.broker.groups.harness import GROUP, Harness

T0 = ("t", 0)


def zoo() -> Harness:
    """One group in each state that a client can see."""
    harness = Harness()
    harness.stable(None, group="stable")
    harness.join_dynamic(group="completing")
    member = harness.stable(None, None, group="preparing")[0]
    harness.join(member.id, group="preparing")
    member = harness.stable(None, group="empty")[0]
    harness.leave(member.id, group="empty")
    harness.commit({T0: 1}, group="simple")
    return harness


@pytest.mark.parametrize(
    ("states", "types", "listed"),
    [
        ([], [], ["completing", "empty", "preparing", "simple", "stable"]),
        (["Stable"], [], ["stable"]),
        (["sTABLE", " completingrebalance "], [], ["completing", "stable"]),
        (["Empty"], [], ["empty", "simple"]),
        (["Dead"], [], []),
        (["nonsense"], [], []),
        ([], ["classic"], ["completing", "empty", "preparing", "simple", "stable"]),
        ([], ["Classic", "consumer"], ["completing", "empty", "preparing", "simple", "stable"]),
        ([], ["consumer"], []),
        ([], ["nonsense"], []),
        (["Stable"], ["consumer"], []),
    ],
)
def test_groups_are_listed_by_state_and_type(states: list[str], types: list[str], listed: list[str]) -> None:
    groups = zoo().coordinator.list_groups(states, types)

    assert sorted(group.group_id for group in groups) == listed


def test_a_listed_group_says_what_it_is() -> None:
    groups = {group.group_id: group for group in zoo().coordinator.list_groups([], [])}

    said = {name: (group.protocol_type, group.group_state, group.group_type) for name, group in groups.items()}

    assert said == {
        "stable": ("consumer", "Stable", "classic"),
        "completing": ("consumer", "CompletingRebalance", "classic"),
        "preparing": ("consumer", "PreparingRebalance", "classic"),
        "empty": ("consumer", "Empty", "classic"),
        "simple": ("", "Empty", "classic"),
    }


@pytest.mark.shows("S1.10", breaks="barnabas.broker.groups.classic_group:ClassicGroup.add")
def test_a_described_group_shows_every_member_under_its_own_id() -> None:
    harness = Harness()
    members = harness.stable(None, "a")

    described = harness.coordinator.describe_group(GROUP, 6)

    assert (described.group_state, described.protocol_type, described.protocol_data) == ("Stable", "consumer", "range")
    assert [
        (m.member_id, m.group_instance_id, m.client_id, m.client_host, m.member_metadata, m.member_assignment)
        for m in described.members
    ] == [
        (members[0].id, None, "client", "/127.0.0.1", b"meta", members[0].id.encode()),
        (members[1].id, "a", "client", "/127.0.0.1", b"meta", members[1].id.encode()),
    ]


@pytest.mark.parametrize(("version", "error"), [(6, errors.GroupIdNotFoundError), (5, None), (0, None)])
def test_a_group_that_does_not_exist_is_dead(version: int, error: type[errors.KafkaError] | None) -> None:
    described = Harness().coordinator.describe_group("nobody", version)

    assert described.group_state == "Dead"
    assert described.error_code == (error.code if error else 0)
    assert described.error_message == ("Group nobody not found." if error else None)


@pytest.mark.parametrize(
    ("group", "error"),
    [
        ("stable", errors.GroupNotEmptyError),
        ("completing", errors.GroupNotEmptyError),
        ("preparing", errors.GroupNotEmptyError),
        ("nobody", errors.GroupIdNotFoundError),
        ("empty", None),
        ("simple", None),
    ],
)
def test_only_groups_without_members_can_be_deleted(group: str, error: type[errors.KafkaError] | None) -> None:
    harness = zoo()

    if error is None:
        harness.coordinator.delete_group(group, harness.at)
    else:
        with pytest.raises(error):
            harness.coordinator.delete_group(group, harness.at)
    harness.restart()

    assert (harness.state(group) == "Dead") == (error in (None, errors.GroupIdNotFoundError))
    assert error is not None or harness.fetch(group=group) == {}


def test_an_id_that_was_given_out_is_gone_with_its_group() -> None:
    harness = Harness()
    member_id = harness.join().response.member_id

    harness.coordinator.delete_group(GROUP, harness.at)

    assert harness.join(member_id).error == errors.UnknownMemberIdError.code
    harness.advance(20.0)
    assert harness.state() == "Dead"


def test_a_group_whose_tombstone_could_not_be_written_is_not_deleted() -> None:
    harness = Harness()
    harness.commit({T0: 1})
    harness.storage.failure = errors.KafkaStorageError()

    with pytest.raises(errors.KafkaStorageError):
        harness.coordinator.delete_group(GROUP, harness.at)

    assert harness.fetch() == {T0: 1}
