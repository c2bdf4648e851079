"""Random questions about streams groups, which Apache Kafka's own classes and ours answer (StreamsGroupOracle.java)."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from barnabas.broker.groups import streams_group_records as records
from barnabas.broker.groups.streams.sticky_assignor import MemberSpec, TaskCount, assign
from barnabas.broker.groups.streams.topic_configuration import configure
from barnabas.broker.groups.streams.topology import from_message
from barnabas.broker.groups.streams_group import StreamsGroup
from barnabas.broker.groups.streams_group_member import AssignedTasks, StreamsGroupMember, TasksTuple
from barnabas.broker.metadata.cluster_metadata import ClusterMetadata, TopicMetadata
from barnabas.broker.metadata.memory_store import MemoryStore
from barnabas.errors import StreamsInvalidTopologyError
from barnabas.protocol.messages import streams_group_heartbeat_request as said
from tests.support.streams_member import subtopology, topic

Question = dict[str, Any]


# --- assignments


def assignment_question(random: Random) -> Question:
    """Members of some processes with what is left of an assignment, of which they lost or gained some."""
    parts = {str(number): [random.randint(1, 9), random.random() < 0.6] for number in range(random.randint(1, 4))}
    processes = [f"p{number}" for number in range(random.randint(1, 5))]
    names = [f"m{number}" for number in range(random.randint(1, 8))]
    replicas = random.choice([0, 0, 1, 2])
    members = {name: {"process": random.choice(processes), "active": {}, "standby": {}} for name in names}
    question = {"kind": "assign", "members": members, "subtopologies": parts, "replicas": replicas}
    if random.random() < 0.8:
        for name, target in assigned(question).items():
            members[name]["active"], members[name]["standby"] = as_json(target.active), as_json(target.standby)
        for name in random.sample(names, random.randint(0, len(names) - 1)):
            del members[name]
        for number in range(random.randint(0, 3)):
            members[f"n{number}"] = {"process": random.choice([*processes, "q"]), "active": {}, "standby": {}}
        if random.random() < 0.3:
            question["replicas"] = random.choice([0, 1, 2])
        if random.random() < 0.3:
            parts["0"][0] += random.randint(1, 4)
    return question


def assigned(question: Question, tags: Mapping[str, Mapping[str, str]] | None = None) -> dict[str, TasksTuple]:
    """What our assignor answers; `tags` are those of processes."""
    members = {
        name: MemberSpec(
            member["process"],
            (tags or {}).get(member["process"], {}),
            TasksTuple(
                {part: frozenset(numbers) for part, numbers in member["active"].items()},
                {part: frozenset(numbers) for part, numbers in member["standby"].items()},
            ),
        )
        for name, member in question["members"].items()
    }
    parts = {name: TaskCount(count, is_stateful) for name, (count, is_stateful) in question["subtopologies"].items()}
    return assign(members, parts, question["replicas"])


def as_json(tasks: Mapping[str, frozenset[int]]) -> dict[str, list[int]]:
    return {name: sorted(numbers) for name, numbers in tasks.items()}


def flat(tasks: Mapping[str, Any]) -> set[tuple[str, int]]:
    return {(name, number) for name, numbers in tasks.items() for number in numbers}


# --- topics


def topology_question(random: Random) -> Question:
    """A topology of some parts, with topics that are there, of a wrong size, or missing."""
    ids = [str(number) for number in range(random.choice([1, 2, 3, 4, 14]))]
    repartitions = [f"r{number}" for number in range(random.randint(0, 4))]
    sources = [f"s{number}" for number in range(4)]
    reads: dict[str, list[str]] = {name: random.sample(sources, random.choice([1, 1, 2])) for name in ids}
    takes: dict[str, list[str]] = {name: [] for name in ids}
    writes: dict[str, list[str]] = {name: [] for name in ids}
    for name in repartitions:
        reader = random.choice(ids)
        takes[reader].append(name)
        if random.random() < 0.4:
            reads[reader] = []
        for writer in random.sample(ids, min(random.choice([1, 1, 1, 1, 1, 2, 0]), len(ids))):
            writes[writer].append(name)
    fixed = {name: random.choice([0, 0, 0, 2, 3]) for name in repartitions}
    parts = []
    for name in ids:
        joined = ()
        if len(reads[name]) + len(takes[name]) > 1 and random.random() < 0.6:
            joined = ((list(range(len(reads[name]))), list(range(len(takes[name])))),)
        changelogs = tuple(f"c{name}-{number}" for number in range(random.choice([0, 0, 1])))
        wanted = tuple(topic(one, fixed[one]) for one in takes[name])
        parts.append(
            subtopology(
                name, *reads[name], changelogs=changelogs, repartitions=wanted, joined=joined, sinks=tuple(writes[name])
            )
        )
    usual = random.choice([1, 2, 3])
    there = {name: random.choice([usual, usual, usual, 3]) for name in sources if random.random() < 0.98}
    for name in [*repartitions, *(one.name for part in parts for one in part.state_changelog_topics)]:
        if random.random() < 0.15:
            there[name] = random.choice([usual, usual, 3])
    parts.sort(key=lambda part: part.subtopology_id)
    request = said.StreamsGroupHeartbeatRequest(topology=said.Topology(0, parts))
    return {"kind": "configure", "topics": there, "request": request.encode(0).hex()}


def is_alike(question: Question) -> bool:
    """Whether Apache Kafka counts as we do: fixed repartition topics bind all that are joined there, not their own."""
    parts = topology_of(question).subtopologies
    fixed = {one.partitions for part in parts for one in part.repartition_source_topics if one.partitions}
    only_repartitions = any(not group.source_topics for part in parts for group in part.copartition_groups)
    return not (fixed and only_repartitions)


def topology_of(question: Question) -> said.Topology:
    request = said.StreamsGroupHeartbeatRequest.decode(bytes.fromhex(question["request"]), 0)
    assert request.topology is not None
    return request.topology


def configured(question: Question) -> Any:
    """What we make of the topics, as the oracle says it."""
    image = ClusterMetadata(MemoryStore())
    for number, (name, partitions) in enumerate(question["topics"].items()):
        image.put_topics([TopicMetadata(name, (number + 1).to_bytes(16, "big"), partitions, {}, 0)])
    try:
        found = configure(from_message(topology_of(question)), image)
    except StreamsInvalidTopologyError:
        return {"failure": "StreamsInvalidTopologyException"}
    answer: dict[str, Any] = {"tasks": dict(found.task_counts)}
    answer["missing"] = {one.name: one.partitions for one in found.missing}
    if found.problem is not None:
        answer["status"] = found.problem.status
    return answer


# --- records


def records_question(random: Random) -> Question:
    """A member and its group, as records tell of them."""

    def tasks() -> dict[str, list[int]]:
        return {
            str(part): sorted(random.sample(range(12), random.randint(1, 5))) for part in random.sample(range(12), 2)
        }

    def assigned() -> list[Any]:
        active = {name: [[number, random.randint(1, 9)] for number in numbers] for name, numbers in tasks().items()}
        return [active, tasks(), random.choice([{}, tasks()])]

    topology = {"kind": "", "request": topology_question(random)["request"]}
    return {
        **topology,
        "kind": "records",
        "group": "gruppe-ä",
        "epoch": random.randint(1, 1 << 30),
        "hash": random.randint(-(1 << 63), (1 << 63) - 1),
        "validated": random.choice([-1, 0, 5]),
        "configs": {"num.standby.replicas": str(random.randint(0, 2))},
        "target": [tasks(), random.choice([{}, tasks()]), random.choice([{}, tasks()])],
        "member": {
            "id": "member",
            "rack": random.choice([None, "rack"]),
            "client": "client",
            "host": "/127.0.0.1",
            "process": "process",
            "timeout": random.randint(-1, 1 << 20),
            "topologyEpoch": random.randint(0, 3),
            "tags": random.choice([{}, {"zone": "z", "cluster": "c"}]),
            "endpoint": random.choice([None, ["localhost", random.choice([1, 65_535])]]),
            "epoch": random.randint(0, 99),
            "previous": random.randint(0, 99),
            "state": random.choice([1, 2, 3]),
            "assigned": assigned(),
            "pending": random.choice([[{}, {}, {}], assigned()]),
        },
    }


def written(question: Question) -> list[list[str]]:
    """What we write, as the oracle says it: key and value of each record in hex."""
    member, group = _member(question["member"]), StreamsGroup(question["group"])
    group.epoch, group.metadata_hash = question["epoch"], question["hash"]
    group.validated_topology_epoch, group.assignment_configs = question["validated"], question["configs"]
    target = TasksTuple(*({part: frozenset(numbers) for part, numbers in role.items()} for role in question["target"]))
    found = [
        records.member_record(group.group_id, member),
        records.topology_record(group.group_id, from_message(topology_of(question))),
        records.epoch_record(group),
        records.target_record(group.group_id, member.member_id, target),
        records.target_epoch_record(group.group_id, group.epoch, question["hash"]),
        records.current_record(group.group_id, member),
        *records.member_tombstones(group.group_id, member.member_id),
        *records.group_tombstones(group),
    ]
    return [[key.hex(), "" if value is None else value.hex()] for key, value in found]


def _member(said: Mapping[str, Any]) -> StreamsGroupMember:
    def assigned(roles: Any) -> AssignedTasks:
        active, standby, warmup = roles
        return AssignedTasks(
            {part: dict(pairs) for part, pairs in active.items()},
            {part: frozenset(numbers) for part, numbers in standby.items()},
            {part: frozenset(numbers) for part, numbers in warmup.items()},
        )

    return StreamsGroupMember(
        said["id"],
        None,
        said["rack"],
        said["client"],
        said["host"],
        said["timeout"],
        said["topologyEpoch"],
        said["process"],
        None if said["endpoint"] is None else (said["endpoint"][0], said["endpoint"][1]),
        said["tags"],
        said["epoch"],
        said["previous"],
        said["state"],
        assigned(said["assigned"]),
        assigned(said["pending"]),
    )


QUESTIONS = {"assign": assignment_question, "configure": topology_question, "records": records_question}
