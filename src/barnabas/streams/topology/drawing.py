"""A topology as a picture in SVG: its sub-topologies one below the other, records flow from top to bottom.

Sources of the picture are those of `describe()`: a box for each sub-topology, in it sources, processors with their
stores, and sinks, around it the topics. Where a sub-topology writes to a topic that another one reads, both show it.
It is text: read aloud, title and description say what `describe()` prints, and each node says what leads where.
Light or dark follows the reader's setting. The same topology gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple
from xml.sax.saxutils import escape

from barnabas.streams.topology.description import (
    GlobalStoreDescription,
    NodeDescription,
    ProcessorDescription,
    SinkDescription,
    SourceDescription,
    SubtopologyDescription,
    TopologyDescription,
)
from barnabas.streams.topology.layers import Place, Vertex, laid_out

#: Text and lines, background, and what kinds of nodes are filled with; in light and in dark.
COLOURS = {
    "light": {"text": "#1a1f24", "page": "#ffffff", "box": "#f3f5f7", "line": "#5b6670",
              "topic": "#fbe9c8", "source": "#d7e8fa", "processor": "#ffffff", "sink": "#dcefdc", "store": "#e9e0f5"},
    "dark": {"text": "#f0f3f6", "page": "#14181c", "box": "#1e242a", "line": "#a4b0bb",
             "topic": "#5a4412", "source": "#1d4468", "processor": "#2b333b", "sink": "#1f4d2a", "store": "#463263"},
}  # fmt: skip

_CHAR = 7.3  # the width of a character, at most, of 12 px in a monospaced font
_LINE = 17.0
_PAD = 10.0
_MARGIN = 24.0
_TITLE = 26.0


class Drawn(NamedTuple):
    """A vertex of the picture: its kind, its text, its stores, and what is read aloud of it."""

    kind: str
    text: str
    stores: tuple[str, ...] = ()
    aloud: str = ""

    @property
    def width(self) -> float:
        """How wide it is, in pixels."""
        texts = [self.text, *(f"   {store}" for store in self.stores)]
        return max(len(text) for text in texts) * _CHAR + 2 * _PAD

    @property
    def height(self) -> float:
        """How high it is, in pixels."""
        return (1 + len(self.stores)) * _LINE + 2 * _PAD - 4


class Part(NamedTuple):
    """A sub-topology, or a global store: its title, vertices by id, and edges between them."""

    title: str
    vertices: dict[str, Drawn]
    edges: list[tuple[str, str]]


def parts_of(described: TopologyDescription) -> list[Part]:
    """Return what is drawn of a topology, in the order of its sub-topologies."""
    found: list[SubtopologyDescription | GlobalStoreDescription] = [*described.subtopologies, *described.global_stores]
    return [part_of(each) for each in sorted(found, key=lambda part: part.id)]


def svg_of(described: TopologyDescription, title: str = "Topology") -> str:
    """Return the picture of a topology: a document of SVG, which a page can hold as it is."""
    drawn, top, width = [], _MARGIN, 0.0
    for each in parts_of(described):
        body, size = _draw(each, top)
        drawn.append(body)
        top += size[1] + _MARGIN
        width = max(width, size[0])
    width += 2 * _MARGIN
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {top:.0f}" width="{width:.0f}" '
        f'height="{top:.0f}" role="img" aria-labelledby="title desc">',
        f'<title id="title">{escape(title)}</title>',
        f'<desc id="desc">{escape(str(described).strip())}</desc>',
        f"<style>{_style()}</style>",
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path class="head" d="M0 0 8 4 0 8z"/></marker></defs>',
        f'<rect class="page" width="{width:.0f}" height="{top:.0f}"/>',
        *drawn,
        "</svg>\n",
    ])  # fmt: skip


def _style() -> str:
    rules = [
        "text{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:var(--text)}"
        ".heading{font-weight:600}.page{fill:var(--page)}.box{fill:var(--box);stroke:var(--line)}"
        ".edge{fill:none;stroke:var(--line);stroke-width:1.4;marker-end:url(#arrow)}.head{fill:var(--line)}"
        + "".join(
            f".{kind}{{fill:var(--{kind});stroke:var(--line)}}"
            for kind in ("topic", "source", "processor", "sink", "store")
        )
    ]
    for theme, colours in COLOURS.items():
        values = ";".join(f"--{name}:{value}" for name, value in colours.items())
        rules.append(
            f"svg{{{values}}}" if theme == "light" else f"@media(prefers-color-scheme:dark){{svg{{{values}}}}}"
        )
    return "".join(rules)


def part_of(described: SubtopologyDescription | GlobalStoreDescription) -> Part:
    """Return what is drawn of a sub-topology or a global store."""
    if isinstance(described, GlobalStoreDescription):
        title = f"Sub-topology {described.id}: global store, no tasks"
        nodes: Iterable[NodeDescription] = (described.source, described.processor)
    else:
        title, nodes = f"Sub-topology {described.id}", described.nodes
    vertices: dict[str, Drawn] = {}
    edges: list[tuple[str, str]] = []
    for node in nodes:
        vertices[node.name] = _of_node(node)
        for topic in _topics_read(node):
            vertices.setdefault(f"in {topic}", Drawn("topic", topic, aloud=f"topic {topic}, read"))
            edges.append((f"in {topic}", node.name))
        edges += [(node.name, successor.name) for successor in node.successors]
        if isinstance(node, SinkDescription):
            topic = node.topic or "a topic chosen for each record"
            vertices.setdefault(f"out {topic}", Drawn("topic", topic, aloud=f"topic {topic}, written"))
            edges.append((node.name, f"out {topic}"))
    return Part(title, vertices, edges)


def _topics_read(node: NodeDescription) -> list[str]:
    if not isinstance(node, SourceDescription):
        return []
    return sorted(node.topics) if node.topic_pattern is None else [node.topic_pattern.pattern]


def _of_node(node: NodeDescription) -> Drawn:
    kind = {SourceDescription: "source", SinkDescription: "sink"}.get(type(node), "processor")
    stores = tuple(sorted(node.stores)) if isinstance(node, ProcessorDescription) else ()
    said = [f"{kind} {node.name}"]
    if stores:
        said.append(f"with stores {', '.join(stores)}")
    if after := [each.name for each in node.successors]:
        said.append(f"leads to {', '.join(after)}")
    return Drawn(kind, node.name, stores, ", ".join(said))


def _draw(part: Part, top: float) -> tuple[str, tuple[float, float]]:
    vertices = [Vertex(name, each.width, each.height) for name, each in part.vertices.items()]
    layout = laid_out(vertices, part.edges)
    width = max(layout.width, len(part.title) * _CHAR) + 2 * _PAD
    height = layout.height + _TITLE + 2 * _PAD
    left, below = _MARGIN + _PAD, top + _TITLE + _PAD
    lines = [
        f'<g role="group" aria-label="{_attribute(part.title)}">',
        f'<rect class="box" x="{_MARGIN}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}" rx="8"/>',
        f'<text class="heading" x="{left:.1f}" y="{top + 18:.1f}">{escape(part.title)}</text>',
    ]
    for points in layout.edges:
        lines.append(f'<path class="edge" d="{_curve([(x + left, y + below) for x, y in points])}"/>')
    for name, place in layout.places.items():
        lines.append(_node(part.vertices[name], Place(place.x + left, place.y + below)))
    return "\n".join([*lines, "</g>"]), (width, height)


def _node(node: Drawn, place: Place) -> str:
    x, y = place.x - node.width / 2, place.y
    rounding = {"topic": node.height / 2, "processor": 4.0}.get(node.kind, 10.0)
    lines = [
        f'<g role="img" aria-label="{_attribute(node.aloud)}"><title>{escape(node.aloud)}</title>',
        f'<rect class="{node.kind}" x="{x:.1f}" y="{y:.1f}" width="{node.width:.1f}" height="{node.height:.1f}" '
        f'rx="{rounding:.0f}"/>',
    ]
    at = y + _PAD + 10
    lines.append(f'<text x="{x + _PAD:.1f}" y="{at:.1f}">{escape(node.text)}</text>')
    at += _LINE
    for store in node.stores:
        lines.append(f'<path class="store" d="{_cylinder(x + _PAD, at - 10)}"/>')
        lines.append(f'<text x="{x + _PAD + 3 * _CHAR:.1f}" y="{at:.1f}">{escape(store)}</text>')
        at += _LINE
    return "".join([*lines, "</g>"])


def _cylinder(x: float, y: float) -> str:
    return f"M{x:.1f} {y + 2:.1f}a7 2.5 0 0 1 14 0v8a7 2.5 0 0 1-14 0z m0 0a7 2.5 0 0 0 14 0"


def _curve(points: list[tuple[float, float]]) -> str:
    path = [f"M{points[0][0]:.1f} {points[0][1]:.1f}"]
    for (x, y), (to_x, to_y) in pairwise(points):
        middle = (y + to_y) / 2
        path.append(f"C{x:.1f} {middle:.1f} {to_x:.1f} {middle:.1f} {to_x:.1f} {to_y:.1f}")
    return "".join(path)


def _attribute(text: str) -> str:
    return escape(text, {'"': "&quot;"})
