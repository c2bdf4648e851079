"""Streams groups (KIP-1071) as a member and an administrator see them: the same on both brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from barnabas import AdminClient, TopicPartition, aio, errors
from barnabas.admin import GroupType
from barnabas.protocol.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest
from barnabas.protocol.messages.streams_group_heartbeat_response import StreamsGroupHeartbeatResponse
from tests.contract.test_cli import CommandLine
from tests.contract.waiting import create_topic, eventually
from tests.support.core_broker import SocketClient
from tests.support.streams_member import StreamsMember, subtopology, topic

NewName = Callable[[str], str]
NOT_READY = (
    errors.NotCoordinatorError.code,
    errors.CoordinatorNotAvailableError.code,
    errors.CoordinatorLoadInProgressError.code,
)
STALE, NO_SOURCE, WRONG_PARTITIONS, NO_INTERNAL, SHUTDOWN, DELAYED = range(6)


@pytest.fixture
def admin(bootstrap_servers: str) -> Iterator[AdminClient]:
    with AdminClient(bootstrap_servers=bootstrap_servers) as client:
        yield client


@pytest.fixture
def send(bootstrap_servers: str, admin: AdminClient) -> Iterator[Callable[..., StreamsGroupHeartbeatResponse]]:
    """Sends heartbeats; a new cluster makes its coordinator when one is first asked for."""
    admin.list_consumer_group_offsets("any")
    with SocketClient(bootstrap_servers) as client:

        def call(request: StreamsGroupHeartbeatRequest) -> StreamsGroupHeartbeatResponse:
            """Try again while the coordinator is not ready, as clients do."""
            found: list[StreamsGroupHeartbeatResponse] = []
            eventually(lambda: found.append(client.request(request, 0)) or found[-1].error_code not in NOT_READY)
            return found[-1]

        yield call


class Words:
    """A group that counts words, with topics of its own."""

    def __init__(self, bootstrap_servers: str, new_name: NewName, partitions: int = 4) -> None:
        self.group = new_name("streams")
        self.lines = create_topic(bootstrap_servers, new_name("lines"), partitions)
        self.internal = {f"{self.group}-words", f"{self.group}-counts"}
        self.topology = (
            subtopology("0", self.lines, sinks=(f"{self.group}-words",)),
            subtopology("1", changelogs=(f"{self.group}-counts",), repartitions=(f"{self.group}-words",)),
        )


@pytest.fixture
def words(bootstrap_servers: str, new_name: NewName) -> Words:
    return Words(bootstrap_servers, new_name)


def settle(*members: StreamsMember, has: Callable[[], bool]) -> None:
    def beat() -> bool:
        for member in members:
            response = member.heartbeat()
            assert not response.error_code, response.error_message
        return has()

    eventually(beat)


def tasks(*members: StreamsMember, role: int = 0) -> list[tuple[str, int]]:
    return sorted((name, number) for member in members for name, some in member.owned[role].items() for number in some)


ALL = [(part, number) for part in "01" for number in range(4)]


def test_internal_topics_are_made_and_tasks_shared_out(
    send: Callable[..., StreamsGroupHeartbeatResponse], admin: AdminClient, words: Words
) -> None:
    a, b = (StreamsMember(send, words.group + name, words.topology, group=words.group) for name in "ab")
    first = a.heartbeat()
    assert (first.error_code, first.active_tasks) == (0, [])
    assert DELAYED in a.statuses
    # A topic that has just been made may not be known to the coordinator yet.
    settle(a, has=lambda: NO_INTERNAL in a.statuses)
    settle(a, b, has=lambda: tasks(a, b) == ALL)
    assert len(tasks(a)) == len(tasks(b)) == 4
    assert {name: len(found.partitions) for name, found in admin.describe_topics(words.internal).items()} == (
        dict.fromkeys(words.internal, 4)
    )
    group = admin.describe_streams_groups([words.group])[words.group]
    assert (group.state, group.topology_epoch, group.group_epoch) == ("Stable", 0, a.epoch)
    assert {part.subtopology_id: part.source_topics for part in group.subtopologies} == {"0": [words.lines], "1": []}
    assert admin.list_groups(types=[GroupType.STREAMS])[words.group].state == "Stable"
    with pytest.raises(errors.GroupNotEmptyError):
        admin.delete_streams_groups([words.group])
    a.leave()
    settle(b, has=lambda: tasks(b) == ALL)
    b.leave()
    eventually(lambda: admin.describe_streams_groups([words.group])[words.group].state == "Empty")
    admin.delete_streams_groups([words.group])


def test_an_admin_client_in_an_event_loop_sees_and_does_the_same(
    send: Callable[..., StreamsGroupHeartbeatResponse], words: Words, bootstrap_servers: str
) -> None:
    member = StreamsMember(send, words.group + "a", words.topology, group=words.group)
    settle(member, has=lambda: tasks(member) == ALL)
    here = TopicPartition(words.lines, 0)

    async def while_it_lives() -> None:
        async with aio.AdminClient(bootstrap_servers=bootstrap_servers) as admin:
            group = (await admin.describe_streams_groups([words.group]))[words.group]
            assert (group.state, group.group_epoch) == ("Stable", member.epoch)
            assert [one.member_id for one in group.members] == [member.id]
            assert (await admin.list_groups(types=[GroupType.STREAMS]))[words.group].state == "Stable"
            with pytest.raises(errors.GroupNotEmptyError):
                await admin.delete_streams_groups([words.group])

    async def when_it_is_empty() -> None:
        async with aio.AdminClient(bootstrap_servers=bootstrap_servers) as admin:
            await admin.alter_streams_group_offsets(words.group, {here: 7})
            found = (await admin.list_streams_group_offsets({words.group: None}))[words.group]
            assert {where: one.offset for where, one in found.items() if one is not None} == {here: 7}
            await admin.delete_streams_group_offsets(words.group, [here])
            found = (await admin.list_streams_group_offsets({words.group: None}))[words.group]
            assert not {where: one for where, one in found.items() if one is not None}
            await admin.delete_streams_groups([words.group])
            with pytest.raises(errors.GroupIdNotFoundError):
                await admin.describe_streams_groups([words.group])

    asyncio.run(while_it_lives())
    member.leave()
    asyncio.run(when_it_is_empty())


def test_copies_follow_the_groups_setting(
    send: Callable[..., StreamsGroupHeartbeatResponse], admin: AdminClient, words: Words, bootstrap_servers: str
) -> None:
    command = CommandLine(bootstrap_servers)
    a, b = (StreamsMember(send, words.group + name, words.topology, group=words.group) for name in "ab")
    settle(a, b, has=lambda: tasks(a, b) == ALL)
    command.run("config", "set", "group", words.group, "streams.num.standby.replicas=1")
    settle(a, b, has=lambda: tasks(a, b, role=1) == [("1", number) for number in range(4)])
    assert not set(tasks(a)) & set(tasks(a, role=1))
    assert a.active.keys() | a.standby.keys() <= {"0", "1"}
    command.close()
    a.leave()
    b.leave()


def test_what_is_wrong_with_a_topology_is_told(
    send: Callable[..., StreamsGroupHeartbeatResponse], bootstrap_servers: str, new_name: NewName
) -> None:
    one, two = (create_topic(bootstrap_servers, new_name("t"), count) for count in (1, 2))
    missing = new_name("missing")

    def statuses(*parts: object, wanted: int) -> str:
        member = StreamsMember(send, new_name("m"), parts, group=new_name("g"))  # type: ignore[arg-type]
        settle(member, has=lambda: wanted in member.statuses)
        member.leave()
        return member.statuses[wanted]

    settled = subtopology("0", one, missing)
    eventually(lambda: statuses(settled, wanted=NO_SOURCE) == f"Source topics {missing} are missing.")
    joined = subtopology("0", one, two, joined=(([0, 1], []),))
    assert "do not have the same number of partitions" in statuses(joined, wanted=WRONG_PARTITIONS)

    def refused(*parts: object) -> int:
        member = StreamsMember(send, new_name("m"), parts, group=new_name("g"))  # type: ignore[arg-type]
        return member.heartbeat().error_code

    invalid = errors.StreamsInvalidTopologyError.code
    assert refused(subtopology("0", "__consumer_offsets")) == invalid
    assert refused(subtopology("0", "no/topic")) == invalid
    changelog = subtopology("0", one)
    changelog.state_changelog_topics = [topic(new_name("c"), 3)]
    assert refused(changelog) == invalid
    assert refused(subtopology("0", one, repartitions=(new_name("r"),))) == invalid


def test_epochs_and_topologies_are_fenced(send: Callable[..., StreamsGroupHeartbeatResponse], words: Words) -> None:
    a = StreamsMember(send, words.group + "a", words.topology, group=words.group, topology_epoch=2)
    settle(a, has=lambda: tasks(a) == ALL)
    fenced = errors.FencedMemberEpochError.code
    assert send(a.request(member_epoch=a.epoch + 1)).error_code == fenced
    assert send(a.request(member_id="x")).error_code == errors.UnknownMemberIdError.code
    assert send(a.request(group_id=words.group + "?")).error_code == errors.GroupIdNotFoundError.code
    assert send(a.request(instance_id="i")).error_code == errors.InvalidRequestError.code
    old = StreamsMember(send, words.group + "b", words.topology[:1], group=words.group, topology_epoch=1)
    assert old.heartbeat().error_code == 0
    assert "epoch 1 is behind the group's topology epoch 2" in old.statuses[STALE]
    other = StreamsMember(send, words.group + "c", words.topology[:1], group=words.group, topology_epoch=2)
    assert other.heartbeat().error_code == errors.InvalidRequestError.code
    a.shuts_down = True
    a.heartbeat()
    old.heartbeat()
    assert SHUTDOWN in old.statuses
    a.leave()
    old.leave()


def test_endpoints_are_told(send: Callable[..., StreamsGroupHeartbeatResponse], words: Words) -> None:
    # Apache Kafka fails where topics are missing and a member has an endpoint.
    first = StreamsMember(send, words.group, words.topology, group=words.group)
    settle(first, has=lambda: tasks(first) == ALL)
    first.leave()
    a, b = (
        StreamsMember(send, words.group + name, words.topology, group=words.group, endpoint=(name, 7)) for name in "ab"
    )
    settle(a, b, has=lambda: tasks(a, b) == ALL)
    settle(a, b, has=lambda: a.endpoints.keys() == b.endpoints.keys() == {("a", 7), ("b", 7)})
    of_b = {(one.topic, number) for one in a.endpoints["b", 7].active_partitions for number in one.partitions}
    assert of_b == {(words.lines if part == "0" else f"{words.group}-words", number) for part, number in tasks(b)}
    a.leave()
    b.leave()


def test_the_command_line_shows_tasks_and_topology(
    send: Callable[..., StreamsGroupHeartbeatResponse], words: Words, bootstrap_servers: str
) -> None:
    command = CommandLine(bootstrap_servers)
    a = StreamsMember(send, words.group + "a", words.topology, group=words.group, process="proc")
    settle(a, has=lambda: tasks(a) == ALL)
    (told,) = command.json("group", "describe", words.group)
    assert (told["type"], told["state"], told["topologyEpoch"]) == ("streams", "Stable", 0)
    assert [part["id"] for part in told["subtopologies"]] == ["0", "1"]
    (member,) = told["members"]
    assert (member["process"], member["active"]) == ("proc", [f"{part}_{number}" for part, number in ALL])
    printed = command.run("group", "describe", words.group)
    for text in (words.lines, f"{words.group}-words", f"{words.group}-counts", "0_0", "proc"):
        assert text in printed
    assert "1 members" in command.fails("group", "offsets", "reset", words.group, "--all-topics", "--to-earliest")
    a.leave()
    reset = ("group", "offsets", "reset", words.group, "--topic", words.lines, "--to-earliest", "--execute")
    assert [row["newOffset"] for row in command.json(*reset)] == [0] * 4
    assert [row["partition"] for row in command.json("group", "describe", words.group)[0]["partitions"]] == [0, 1, 2, 3]
    assert len(command.json("group", "offsets", "delete", words.group, "--all-topics")) == 4
    assert command.json("group", "delete", words.group) == [{"group": words.group, "deleted": True}]
    command.close()
