"""Topologies of streams applications as pictures: what they read and write, with what keeps the rates beside them.

Known of an application is what its group tells (KIP-1071), or a topology that the console was started with
(`--topology`), or else only the names of its internal topics, which Kafka Streams makes of the application's id.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict

from barnabas.admin import GroupType
from barnabas.console.visible_topics import check_topics, refused_topics
from barnabas.errors import GroupIdNotFoundError
from barnabas.streams.topology.drawing import Drawn, Part, parts_of
from barnabas.streams.topology.layers import Vertex, laid_out

if TYPE_CHECKING:
    from barnabas.admin import StreamsGroupDescription
    from barnabas.aio import AdminClient
    from barnabas.console.commands import Commands
    from barnabas.streams.topology.description import TopologyDescription

#: How names of internal topics end.
CHANGELOG, REPARTITION = "-changelog", "-repartition"
UNTOLD = "untold"
_NAME = re.compile(r"[\w.-]{1,249}", re.ASCII)


class Application(TypedDict):
    """A streams application; `known` is group, topology or topics: what its picture comes from."""

    application: str
    known: str
    state: str | None
    internalTopics: int


class Applications(TypedDict):
    """All streams applications that can be told from other groups."""

    applications: list[Application]
    command: str


class Node(TypedDict):
    """A box: kind is topic, source, processor, sink or untold; x and y of its upper left corner in pixels.

    `untold` stands for what nothing tells: topics of others that a sub-topology may write to.
    """

    id: str
    kind: str
    text: str
    stores: list[str]
    aloud: str
    x: float
    y: float
    width: float
    height: float


class Arrow(TypedDict):
    """An edge: the points that it goes through, and the topic whose rate stands on it.

    `way` is read (by the application's group), written (by all who write there), or empty between two nodes.
    """

    path: list[tuple[float, float]]
    topic: str | None
    way: str
    aloud: str


class Picture(TypedDict):
    """A sub-topology, its size in pixels."""

    title: str
    width: float
    height: float
    nodes: list[Node]
    arrows: list[Arrow]


class Topology(TypedDict):
    """An application's topology."""

    application: str
    known: str
    parts: list[Picture]
    command: str


async def applications(
    admin: AdminClient, given: Mapping[str, TopologyDescription], commands: Commands
) -> Applications:
    """Return all applications; of those `given` the ones whose topics the principal may see."""
    given = await _seen(admin, given)
    groups = await admin.list_groups(raise_errors=False)
    internal = internal_topics(await admin.list_topics(include_internal=True), {*groups, *given})
    rows: list[Application] = []
    for name in sorted({*internal, *given, *(group for group, each in groups.items() if _is_streams(each.type))}):
        group = groups.get(name)
        known = "topology" if name in given else "group" if group and _is_streams(group.type) else "topics"
        state = None if group is None or group.state is None else group.state.name
        row: Application = {
            "application": name,
            "known": known,
            "state": state,
            "internalTopics": len(internal.get(name, ())),
        }
        rows.append(row)
    return {"applications": rows, "command": commands.line("group", "list", "--type", "streams")}


def _is_streams(kind: GroupType | None) -> bool:
    return kind == GroupType.STREAMS


def internal_topics(topics: Iterable[str], groups: Iterable[str]) -> dict[str, list[str]]:
    """Return the internal topics of those groups that have some: `application-NAME-changelog` or `-repartition`.

    Where one group's name begins another's, a topic is the longer one's.
    """
    found: dict[str, list[str]] = {}
    longest_first = sorted((group for group in groups if group), key=len, reverse=True)
    for topic in sorted(topics):
        if topic.endswith((CHANGELOG, REPARTITION)):
            owner = next((group for group in longest_first if topic.startswith(f"{group}-")), None)
            if owner is not None and topic.removeprefix(owner) not in (CHANGELOG, REPARTITION):
                found.setdefault(owner, []).append(topic)
    return found


async def topology(
    admin: AdminClient, name: str, given: Mapping[str, TopologyDescription], commands: Commands
) -> Topology:
    """Return an application's picture. Raises `GroupIdNotFoundError` for one of which nothing is known, ..."""
    known, parts = await _parts(admin, name, given)
    return {
        "application": name,
        "known": known,
        "parts": [_picture(name, part) for part in parts],
        "command": commands.line("group", "describe", name),
    }


async def _parts(admin: AdminClient, name: str, given: Mapping[str, TopologyDescription]) -> tuple[str, Sequence[Part]]:
    if name in given:
        parts = parts_of(given[name])
        await check_topics(admin, _topics_of(name, parts), f"the topology of {name!r}")
        return "topology", parts
    group = (await admin.list_groups(raise_errors=False)).get(name)
    if group is not None and _is_streams(group.type):
        return "group", parts_of_group((await admin.describe_streams_groups([name]))[name])
    internal = internal_topics(await admin.list_topics(include_internal=True), [name]).get(name, [])
    read = await admin.list_consumer_group_offsets(name) if group is not None else {}
    if not internal and not read:
        raise GroupIdNotFoundError(f"there is no streams application {name!r}: no group, and no internal topics of it")
    return "topics", [part_of_topics(name, {partition.topic for partition in read}, internal)]


async def _seen(admin: AdminClient, given: Mapping[str, TopologyDescription]) -> dict[str, TopologyDescription]:
    topics = {name: _topics_of(name, parts_of(each)) for name, each in given.items()}
    refused = await refused_topics(admin, {topic for found in topics.values() for topic in found})
    return {name: each for name, each in given.items() if not topics[name] & refused}


def _topics_of(application: str, parts: Sequence[Part]) -> set[str]:
    texts = [vertex.text for part in parts for vertex in part.vertices.values() if vertex.kind == "topic"]
    # Patterns, and sinks whose topic is chosen for each record, name none.
    return {_in_cluster(application, text) for text in texts if _NAME.fullmatch(text)}


def _in_cluster(application: str, topic: str) -> str:
    """Return what a topic of a topology is called: its repartition topics stand there without the application."""
    is_short = topic.endswith(REPARTITION) and not topic.startswith(f"{application}-")
    return f"{application}-{topic}" if is_short else topic


def parts_of_group(group: StreamsGroupDescription) -> list[Part]:
    """Return what a group tells of its topology (KIP-1071), which leaves out sinks that are topics of others."""
    found = []
    for part in sorted(group.subtopologies, key=lambda each: each.subtopology_id):
        stores = [short(group.group_id, topic.name) for topic in part.state_changelog_topics]
        read = [*part.source_topics, *(topic.name for topic in part.repartition_source_topics)]
        title = f"Sub-topology {part.subtopology_id}"
        found.append(_part(title, title, stores, read, part.repartition_sink_topics))
    return found


def part_of_topics(application: str, read: Iterable[str], internal: Iterable[str]) -> Part:
    """Return what the topics tell of an application: a box for all of it."""
    internal = list(internal)
    stores = [short(application, topic) for topic in internal if topic.endswith(CHANGELOG)]
    repartition = [topic for topic in internal if topic.endswith(REPARTITION)]
    return _part(application, application, stores, sorted({*read} - {*repartition}), repartition)


def short(application: str, topic: str) -> str:
    """Return the name of a store by its changelog."""
    return topic.removeprefix(f"{application}-").removesuffix(CHANGELOG)


def _part(title: str, name: str, stores: Iterable[str], read: Iterable[str], written: Iterable[str]) -> Part:
    stores, read, written = sorted(stores), list(read), list(written)
    said = f"{name}, with stores {', '.join(stores)}" if stores else name
    vertices = {f"in {topic}": Drawn("topic", topic, aloud=f"topic {topic}, read") for topic in read}
    vertices[name] = Drawn("processor", name, tuple(stores), said)
    vertices |= {f"out {topic}": Drawn("topic", topic, aloud=f"topic {topic}, written") for topic in written}
    # Not a guess at which: only a topology itself names them.
    vertices[UNTOLD] = Drawn(UNTOLD, "topics of others: not told", aloud="topics of others, which nothing tells")
    edges = [*((f"in {topic}", name) for topic in read), *((name, f"out {topic}") for topic in written)]
    return Part(title, vertices, [*edges, (name, UNTOLD)])


def _picture(application: str, part: Part) -> Picture:
    vertices = [Vertex(name, each.width, each.height) for name, each in part.vertices.items()]
    edges = list(dict.fromkeys(part.edges))
    layout = laid_out(vertices, edges)
    nodes: list[Node] = []
    for name, at in layout.places.items():
        drawn = part.vertices[name]
        node: Node = {
            "id": name,
            "kind": drawn.kind,
            "text": drawn.text,
            "stores": list(drawn.stores),
            "aloud": drawn.aloud,
            "x": at.x - drawn.width / 2,
            "y": at.y,
            "width": drawn.width,
            "height": drawn.height,
        }
        nodes.append(node)
    arrows = [_arrow(application, part, edge, path) for edge, path in zip(edges, layout.edges, strict=True)]
    return {"title": part.title, "width": layout.width, "height": layout.height, "nodes": nodes, "arrows": arrows}


def _arrow(application: str, part: Part, edge: tuple[str, str], path: list[tuple[float, float]]) -> Arrow:
    first, last = (part.vertices[name] for name in edge)
    way = "read" if first.kind == "topic" else "written" if last.kind == "topic" else ""
    topic = {"read": first.text, "written": last.text, "": None}[way]
    if topic is not None:
        topic = _in_cluster(application, topic)
    return {"path": path, "topic": topic, "way": way, "aloud": f"{first.text} → {last.text}"}
