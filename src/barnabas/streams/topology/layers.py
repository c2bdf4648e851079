"""Where the vertices of a directed graph stand in a picture: in layers, each below what leads to it.

Source: Sugiyama, Tagawa, Toda, "Methods for visual understanding of hierarchical system structures" (1981): longest
paths give the layers, edges that pass layers get vertices of no width there, means of the neighbours the order within
a layer. Kafka's topologies have no circles within a sub-topology; an edge that closes one is drawn backwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

#: Between two vertices of a layer, and between two layers.
GAP, LAYER = 26.0, 44.0
_SWEEPS = 8


class Vertex(NamedTuple):
    """A vertex with its size."""

    name: str
    width: float
    height: float


class Place(NamedTuple):
    """The middle of a vertex's upper side."""

    x: float
    y: float


class Layout(NamedTuple):
    """Where vertices stand, the points that each edge goes through from top to bottom, and the size of it all."""

    places: dict[str, Place]
    edges: list[list[tuple[float, float]]]
    width: float
    height: float


def laid_out(vertices: Sequence[Vertex], edges: Iterable[tuple[str, str]]) -> Layout:
    """Return where the vertices of a graph stand."""
    sizes = {each.name: each for each in vertices}
    wanted = list(dict.fromkeys(edges))
    depth = _depths(list(sizes), wanted)
    chains = [_chain(edge, depth, sizes) for edge in wanted]
    layers: list[list[str]] = [[] for _ in range(max(depth.values(), default=0) + 1)]
    for name in sizes:
        layers[depth[name]].append(name)
    neighbours = _neighbours(chains)
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        for at in range(1, len(layers)) if down else range(len(layers) - 2, -1, -1):
            _order(layers[at], layers[at - 1 if down else at + 1], neighbours)
    x = _columns(layers, sizes, neighbours)
    tops, height = _rows(layers, sizes)
    width = max((x[name] + sizes[name].width / 2 for name in sizes), default=0.0)
    places = {name: Place(x[name], tops[depth[name]]) for name in sizes if not name.startswith("\0")}
    return Layout(places, [_points(chain, x, tops, depth, sizes) for chain in chains], width, height)


def _depths(names: list[str], edges: list[tuple[str, str]]) -> dict[str, int]:
    """Return the layer of each vertex: the longest way to it."""
    depth = dict.fromkeys(names, 0)
    for _ in names:
        changed = False
        for start, end in edges:
            if start != end and depth[end] <= depth[start] < len(names):
                depth[end], changed = depth[start] + 1, True
        if not changed:
            break
    # What nothing leads to stands above what it leads to, not at the very top.
    targets = {end for _, end in edges}
    for name in names:
        after = [depth[end] for start, end in edges if start == name]
        if name not in targets and after:
            depth[name] = max(0, min(after) - 1)
    return depth


def _chain(edge: tuple[str, str], depth: dict[str, int], sizes: dict[str, Vertex]) -> list[str]:
    """Return an edge's vertices, with those of no width in the layers between."""
    start, end = edge
    between = []
    for at in range(depth[start] + 1, depth[end]):
        name = f"\0{start}\0{end}\0{at}"
        depth[name] = at
        sizes[name] = Vertex(name, 0.0, 0.0)
        between.append(name)
    return [start, *between, end]


def _neighbours(chains: list[list[str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for chain in chains:
        for one, other in pairwise(chain):
            found.setdefault(one, []).append(other)
            found.setdefault(other, []).append(one)
    return found


def _order(layer: list[str], fixed: list[str], neighbours: dict[str, list[str]]) -> None:
    """Sort a layer by the mean place of each vertex's neighbours in the layer beside it."""
    place = {name: at for at, name in enumerate(fixed)}

    def mean(at: int, name: str) -> float:
        found = [place[each] for each in neighbours.get(name, ()) if each in place]
        return sum(found) / len(found) if found else float(at)

    keys = {name: mean(at, name) for at, name in enumerate(layer)}
    layer.sort(key=keys.__getitem__)


def _columns(layers: list[list[str]], sizes: dict[str, Vertex], neighbours: dict[str, list[str]]) -> dict[str, float]:
    """Return the middle of each vertex: near its neighbours, without overlaps."""
    x: dict[str, float] = {}
    for layer in layers:
        left = 0.0
        for name in layer:
            x[name] = left + sizes[name].width / 2
            left += sizes[name].width + GAP
    for _ in range(_SWEEPS):
        for layer in (*layers, *reversed(layers)):
            for name in layer:
                if near := [x[each] for each in neighbours.get(name, ())]:
                    x[name] = sum(near) / len(near)
            _apart(layer, sizes, x)
    least = min((x[name] - sizes[name].width / 2 for name in x), default=0.0)
    return {name: at - least for name, at in x.items()}


def _apart(layer: list[str], sizes: dict[str, Vertex], x: dict[str, float]) -> None:
    """Move vertices of a layer apart, as little as may be: to the right, then back by half of what that took."""
    wanted = [x[name] for name in layer]
    for before, name in pairwise(layer):
        x[name] = max(x[name], x[before] + (sizes[before].width + sizes[name].width) / 2 + GAP)
    if layer:
        moved = sum(x[name] - at for name, at in zip(layer, wanted, strict=True)) / len(layer)
        for name in layer:
            x[name] -= moved


def _rows(layers: list[list[str]], sizes: dict[str, Vertex]) -> tuple[list[float], float]:
    tops, at = [], 0.0
    for layer in layers:
        tops.append(at)
        at += max((sizes[name].height for name in layer), default=0.0) + LAYER
    return tops, max(0.0, at - LAYER)


def _points(
    chain: list[str], x: dict[str, float], tops: list[float], depth: dict[str, int], sizes: dict[str, Vertex]
) -> list[tuple[float, float]]:
    first, last = chain[0], chain[-1]
    points = [(x[first], tops[depth[first]] + sizes[first].height)]
    points += [(x[name], tops[depth[name]]) for name in chain[1:-1]]
    return [*points, (x[last], tops[depth[last]])]
