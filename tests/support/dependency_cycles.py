"""Cycles among dependencies of transactions, by what they are made of (Adya's G0, G1c, G-single, G2)."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from itertools import pairwise

#: From one transaction to another: "ww" (overwrote), "wr" (was read by), "rw" (read what the other overwrote).
Edges = dict[tuple[int, int], set[str]]
#: From the worst on: what a cycle may be made of, and how many rw it has at most.
_KINDS = (
    ("G0", {"ww"}, 0),
    ("G1c", {"ww", "wr"}, 0),
    ("G-single", {"ww", "wr", "rw"}, 1),
    ("G2", {"ww", "wr", "rw"}, -1),
)


def cycles(edges: Edges) -> Iterator[tuple[str, list[int]]]:
    """Yield the worst cycle of each group of transactions that depend on each other, with its kind."""
    for name, allowed, most_rw in _KINDS:
        graph: dict[int, set[int]] = defaultdict(set)
        for (first, second), kinds in edges.items():
            if first != second and kinds & allowed:
                graph[first].add(second)
        for component in _components(graph):
            path = _cycle(graph, edges, component, most_rw)
            if path is not None and not _is_worse(edges, path, name):
                yield name, path


def _is_worse(edges: Edges, path: list[int], name: str) -> bool:
    """Whether the cycle was found as one of an earlier kind."""
    steps = [edges[step] for step in pairwise(path)]
    for earlier, allowed, most_rw in _KINDS:
        if earlier == name:
            return False
        only_rw = sum(1 for kinds in steps if not kinds & {"ww", "wr"})
        if all(kinds & allowed for kinds in steps) and (most_rw < 0 or only_rw <= most_rw):
            return True
    return False


def _components(graph: Mapping[int, set[int]]) -> list[set[int]]:
    """Return the strongly connected components of more than one (Kosaraju, without recursion)."""
    order: list[int] = []
    seen: set[int] = set()
    for root in list(graph):
        stack = [(root, iter(graph.get(root, ())))] if root not in seen else []
        seen.add(root)
        while stack:
            node, rest = stack[-1]
            following = next((one for one in rest if one not in seen), None)
            if following is None:
                order.append(stack.pop()[0])
            else:
                seen.add(following)
                stack.append((following, iter(graph.get(following, ()))))
    back: dict[int, set[int]] = defaultdict(set)
    for node, targets in graph.items():
        for target in targets:
            back[target].add(node)
    found: list[set[int]] = []
    taken: set[int] = set()
    for root in reversed(order):
        group, waiting = set(), [root]
        while waiting:
            node = waiting.pop()
            if node not in taken:
                taken.add(node)
                group.add(node)
                waiting += back[node] - taken
        if len(group) > 1:
            found.append(group)
    return found


def _cycle(graph: Mapping[int, set[int]], edges: Edges, component: set[int], most_rw: int) -> list[int] | None:
    """Return the shortest cycle through some member, with at most so many edges that are nothing but rw; or None."""
    for start in sorted(component):
        begin = (start, 0)
        before: dict[tuple[int, int], tuple[int, int] | None] = {begin: None}
        waiting = deque([begin])
        while waiting:
            node, used = waiting.popleft()
            for target in sorted(graph.get(node, set()) & component):
                state = (target, used + (not edges[(node, target)] & {"ww", "wr"}) * (most_rw >= 0))
                if 0 <= most_rw < state[1]:
                    continue
                if target == start:
                    return [*_path(before, (node, used)), start]
                if state not in before:
                    before[state] = (node, used)
                    waiting.append(state)
    return None


def _path(before: Mapping[tuple[int, int], tuple[int, int] | None], state: tuple[int, int]) -> list[int]:
    path: list[int] = []
    at: tuple[int, int] | None = state
    while at is not None:
        path.append(at[0])
        at = before[at]
    return path[::-1]
