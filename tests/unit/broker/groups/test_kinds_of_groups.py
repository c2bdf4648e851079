"""What members of one kind of group do not get from a group of another kind."""

from __future__ import annotations

import pytest

from barnabas import errors
from barnabas.broker.groups.share_group import ShareGroup, ShareGroupMember
from barnabas.protocol.messages.offset_delete_request import OffsetDeleteRequest
from barnabas.protocol.messages.offset_fetch_request import OffsetFetchRequestGroup
from tests.unit.broker.groups.harness import Harness, code

NOT_FOUND = code(errors.GroupIdNotFoundError)


@pytest.fixture(params=[False, True], ids=["empty", "with a member"])
def harness(request: pytest.FixtureRequest) -> Harness:
    """A coordinator with a share group."""
    harness = Harness()
    group = ShareGroup("g")
    if request.param:
        group.members["s"] = ShareGroupMember("s")
    harness.coordinator._store.put(group)
    return harness


@pytest.mark.parametrize("member_id", ["", "x"])
def test_a_classic_member_does_not_take_the_place_of_a_share_group(harness: Harness, member_id: str) -> None:
    assert harness.join(member_id).error == code(errors.InconsistentGroupProtocolError)
    assert harness.coordinator.count_groups().keys() <= {("share", "Empty"), ("share", "Stable")}
    assert harness.storage.records == []


@pytest.mark.parametrize("generation", [-1, 3])
def test_a_share_group_has_no_committed_offsets(harness: Harness, generation: int) -> None:
    assert harness.commit({("t", 0): 1}, "s", generation) == NOT_FOUND
    fetched = harness.coordinator.fetch_offsets(OffsetFetchRequestGroup(group_id="g", topics=None), False)
    assert fetched.error_code == NOT_FOUND
    with pytest.raises(errors.GroupIdNotFoundError):
        harness.coordinator.delete_offsets(harness.context(0), OffsetDeleteRequest("g", []))
