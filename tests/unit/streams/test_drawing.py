"""A topology as a picture: everything is there, nothing lies upon another thing, and all can be read, or heard."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from barnabas.streams import JoinWindows, Serdes, StreamsBuilder, Suppressed, TimeWindows, Topology
from barnabas.streams.topology import drawing
from barnabas.streams.topology.description import NodeDescription, ProcessorDescription, SinkDescription
from barnabas.streams.topology.drawing import COLOURS, svg_of
from barnabas.streams.topology.layers import Vertex, laid_out

SVG = "{http://www.w3.org/2000/svg}"
TEXT: dict[str, Any] = {"key": Serdes.string(), "value": Serdes.string()}
PICTURE = Path(__file__).parents[3] / "docs" / "images" / "streams-topology.svg"


def airport() -> Topology:
    """The topology of the guide's picture."""
    builder = StreamsBuilder()
    airports = builder.global_table("airports", **TEXT, store="airports")
    departed = builder.stream("departed", **TEXT, name="departures")
    landed = builder.stream("landed", **TEXT, name="landings")
    hour = TimeWindows.of_size(hours=1).with_grace(minutes=10)
    (
        departed.group_by(lambda flight, origin: origin, name="by-origin").windowed_by(hour)
        .count(store="departures-an-hour").suppress(Suppressed.until_window_closes().with_name("closed-hours"))
        .to_stream(lambda window, count: window.key, name="origins").to("departures", name="to-departures")
    )  # fmt: skip
    trips = departed.join(landed, lambda left, arrived: f"{left}-{arrived}", JoinWindows.of_time_difference(hours=12))
    trips.join(airports, lambda flight, trip: trip, lambda trip, name: f"{trip} {name}").to("trips", name="to-trips")
    return builder.build()


@pytest.fixture(params=["airport", "joined"])
def topology(request: pytest.FixtureRequest) -> Topology:
    if request.param == "airport":
        return airport()
    builder = StreamsBuilder()
    one, two, three = (builder.table(name, **TEXT) for name in ("one", "two", "a<b&c\"d'"))
    one.join(two, lambda one, other: one).join(three, lambda one, other: one).to_stream().to("out")
    left, right = builder.stream("x", **TEXT), builder.stream("y", **TEXT)
    left.merge(right).merge(builder.stream("z", **TEXT)).left_join(one, lambda one, other: one).to("out2")
    left.outer_join(right, lambda one, other: one, JoinWindows.of_time_difference(hours=1)).to("out3")
    return builder.build()


def nodes_of(topology: Topology) -> list[NodeDescription]:
    described = topology.describe()
    return [node for part in described.subtopologies for node in part.nodes] + [
        node for part in described.global_stores for node in (part.source, part.processor)
    ]


def labels(root: ElementTree.Element) -> list[str]:
    return [each.attrib["aria-label"] for each in root.iter(f"{SVG}g") if each.attrib.get("role") == "img"]


def boxes(root: ElementTree.Element, *kinds: str) -> list[tuple[float, float, float, float]]:
    return [
        (float(each.attrib["x"]), float(each.attrib["y"]), float(each.attrib["width"]), float(each.attrib["height"]))
        for each in root.iter(f"{SVG}rect")
        if each.attrib["class"] in kinds
    ]


def test_each_node_store_topic_and_edge_is_drawn_and_told(topology: Topology) -> None:
    root = ElementTree.fromstring(svg_of(topology.describe()))
    texts = {each.text for each in root.iter(f"{SVG}text")}
    nodes = nodes_of(topology)
    spoken = labels(root)

    assert {node.name for node in nodes} <= texts
    assert {store for node in nodes if isinstance(node, ProcessorDescription) for store in node.stores} <= texts
    assert {node.topic for node in nodes if isinstance(node, SinkDescription)} <= texts
    for node in nodes:
        if [*node.successors]:
            after = ", ".join(each.name for each in node.successors)
            assert any(f" {node.name}" in said and said.endswith(f"leads to {after}") for said in spoken)
    read = sum(len(node.topics) for node in nodes if hasattr(node, "topics"))
    written = sum(isinstance(node, SinkDescription) for node in nodes)
    edges = [each for each in root.iter(f"{SVG}path") if each.attrib["class"] == "edge"]
    assert len(edges) == sum(len([*node.successors]) for node in nodes) + read + written


def test_the_document_names_itself_and_tells_what_describe_prints(topology: Topology) -> None:
    root = ElementTree.fromstring(svg_of(topology.describe(), "Flights & <more>"))
    named = {each.attrib["id"]: each.text for each in root if "id" in each.attrib}

    assert root.attrib["role"] == "img"
    assert [named[each] for each in root.attrib["aria-labelledby"].split()] == [
        "Flights & <more>", str(topology.describe()).strip(),
    ]  # fmt: skip
    assert all(group.find(f"{SVG}title") is not None for group in root.iter(f"{SVG}g") if group.attrib["role"] == "img")


def test_nothing_lies_upon_another_thing_and_texts_fit(topology: Topology) -> None:
    root = ElementTree.fromstring(svg_of(topology.describe()))
    drawn = boxes(root, "topic", "source", "processor", "sink")
    (_, _, width, height) = 0, 0, float(root.attrib["width"]), float(root.attrib["height"])

    for (x, y, wide, high), (x2, y2, wide2, high2) in itertools.combinations(drawn, 2):
        assert x + wide <= x2 or x2 + wide2 <= x or y + high <= y2 or y2 + high2 <= y
    for outer in boxes(root, "box"):
        assert outer[0] + outer[2] <= width
        assert outer[1] + outer[3] <= height
    for x, y, wide, high in drawn:
        assert any(bx <= x and by <= y and x + wide <= bx + bw and y + high <= by + bh
                   for bx, by, bw, bh in boxes(root, "box"))  # fmt: skip
    for group in root.iter(f"{SVG}g"):
        rectangle = group.find(f"{SVG}rect")
        if group.attrib["role"] == "img" and rectangle is not None:
            right = float(rectangle.attrib["x"]) + float(rectangle.attrib["width"])
            for text in group.findall(f"{SVG}text"):
                assert float(text.attrib["x"]) + len(text.text or "") * drawing._CHAR <= right + 0.1


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", sorted(COLOURS))
def test_text_and_lines_can_be_told_from_what_is_behind_them(theme: str) -> None:
    colours = COLOURS[theme]

    for name in ("page", "box", "topic", "source", "processor", "sink"):
        assert contrast(colours["text"], colours[name]) >= 4.5, name  # WCAG 2.2, 1.4.3
    for name in ("page", "box"):
        assert contrast(colours["line"], colours[name]) >= 3.0, name  # 1.4.11


def test_layers_follow_the_edges_and_a_circle_is_drawn_too() -> None:
    vertices = [Vertex(name, 10, 10) for name in "abcd"]

    layout = laid_out(vertices, [("a", "b"), ("b", "c"), ("a", "c"), ("c", "b"), ("d", "d")])

    assert layout.places["a"].y < layout.places["b"].y
    assert len(layout.edges) == 5
    assert laid_out([], []).width == 0.0


def test_the_picture_of_the_guide_is_what_the_code_draws() -> None:
    assert PICTURE.read_text(encoding="utf-8") == svg_of(airport().describe(), "The flights of an airport")
