"""A finite automaton for a parsed expression; matching takes time in proportion to the name's length."""

from __future__ import annotations

from barnabas.broker.regex.parser import Node, RegexSyntaxError

#: What an expression may grow to when its repetitions are written out, and how many sets of states are remembered.
_MAX_STATES = 10_000
_MAX_REMEMBERED = 2_000

#: A state of the automaton: where a character in the set leads, or where one gets without any character.
_CHARACTER, _SPLIT, _START, _END, _MATCH = range(5)


class _State:
    __slots__ = ("characters", "kind", "next")

    def __init__(self, kind: int, next: list[int], characters: frozenset[str] = frozenset()):
        self.kind = kind
        self.next = next
        self.characters = characters


class Automaton:
    """Tells whether an expression matches the whole of a name."""

    __slots__ = ("_first", "_remembered", "_states")

    def __init__(self, states: list[_State], first: int):
        self._states = states
        self._first = first
        #: Set of states → character → the set after it.
        self._remembered: dict[frozenset[int], dict[str, frozenset[int]]] = {}

    def matches(self, name: str) -> bool:
        """Whether the whole of `name` matches."""
        current = self._closure([self._first], at_start=True, at_end=not name)
        last = len(name) - 1
        for index, character in enumerate(name):
            if index == last:
                current = self._closure(self._after(current, character), at_start=False, at_end=True)
            else:
                current = self._step(current, character)
            if not current:
                return False
        return any(self._states[state].kind == _MATCH for state in current)

    def _step(self, current: frozenset[int], character: str) -> frozenset[int]:
        steps = self._remembered.get(current)
        if steps is None:
            if len(self._remembered) >= _MAX_REMEMBERED:
                self._remembered.clear()
            steps = self._remembered[current] = {}
        after = steps.get(character)
        if after is None:
            after = steps[character] = self._closure(self._after(current, character), at_start=False, at_end=False)
        return after

    def _after(self, current: frozenset[int], character: str) -> list[int]:
        states = self._states
        return [
            states[state].next[0]
            for state in current
            if states[state].kind == _CHARACTER and character in states[state].characters
        ]

    def _closure(self, pending: list[int], at_start: bool, at_end: bool) -> frozenset[int]:
        found: set[int] = set()
        while pending:
            index = pending.pop()
            if index in found:
                continue
            found.add(index)
            state = self._states[index]
            passes = state.kind == _SPLIT or (state.kind == _START and at_start) or (state.kind == _END and at_end)
            if passes:
                pending.extend(state.next)
        return frozenset(found)


def compile_automaton(node: Node) -> Automaton:
    """Return the automaton of an expression. Raises RegexSyntaxError when it would be too large."""
    states = [_State(_MATCH, [])]
    return Automaton(states, _add(states, node, 0))


def _add(states: list[_State], node: Node, after: int) -> int:
    # Puts `node` in front of the state `after`; gives the state it begins with.
    if node.kind == "sequence":
        for part in reversed(node.parts):
            after = _add(states, part, after)
        return after
    if node.kind == "choice":
        return _new(states, _State(_SPLIT, [_add(states, part, after) for part in node.parts]))
    if node.kind == "repeat":
        return _add_repeat(states, node, after)
    if node.kind == "chars":
        return _new(states, _State(_CHARACTER, [after], node.characters))
    return _new(states, _State(_START if node.kind == "start" else _END, [after]))


def _add_repeat(states: list[_State], node: Node, after: int) -> int:
    part = node.parts[0]
    if node.high < 0:
        loop = _State(_SPLIT, [after])
        first = _new(states, loop)
        loop.next.append(_add(states, part, first))
    else:
        first = after
        for _ in range(node.high - node.low):
            first = _new(states, _State(_SPLIT, [after, _add(states, part, first)]))
    for _ in range(node.low):
        before = first
        first = _add(states, part, before)
        if first == before:
            break  # nothing, any number of times, is nothing
    return first


def _new(states: list[_State], state: _State) -> int:
    if len(states) >= _MAX_STATES:
        raise RegexSyntaxError("it is too large")
    states.append(state)
    return len(states) - 1
