"""Reads regular expressions in RE2's syntax into a tree, for names of which all characters are known."""

from __future__ import annotations

import string

#: What names of topics are made of.
ALPHABET = frozenset(string.ascii_letters + string.digits + "._-")

_WORD = frozenset(string.ascii_letters + string.digits + "_")
_DIGITS = frozenset(string.digits)
_ASCII = frozenset(map(chr, range(128)))
_GRAPH = frozenset(string.ascii_letters + string.digits + string.punctuation)
_PERL = {"d": _DIGITS, "w": _WORD, "s": frozenset("\t\n\f\r ")}
_POSIX = {
    "alnum": frozenset(string.ascii_letters + string.digits),
    "alpha": frozenset(string.ascii_letters),
    "ascii": _ASCII,
    "blank": frozenset("\t "),
    "cntrl": _ASCII - _GRAPH - {" "},
    "digit": _DIGITS,
    "graph": _GRAPH,
    "lower": frozenset(string.ascii_lowercase),
    "print": _GRAPH | {" "},
    "punct": frozenset(string.punctuation),
    "space": frozenset(string.whitespace),
    "upper": frozenset(string.ascii_uppercase),
    "word": _WORD,
    "xdigit": frozenset(string.hexdigits),
}
_CONTROL = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}
_FLAGS = frozenset("imsU")
_MAX_REPEAT = 1000
#: How deep groups may be nested, and how long an expression may be.
_MAX_DEPTH = 100
_MAX_LENGTH = 10_000


class RegexSyntaxError(ValueError):
    """The expression cannot be understood; the message says what and where."""


class Node:
    """A part of an expression: its kind, and what the kind has.

    `chars`: `characters`; `sequence`, `choice`: `parts`; `repeat`: `parts[0]`, `low`, `high` (-1: any number);
    `start`, `end`: nothing.
    """

    __slots__ = ("characters", "high", "kind", "low", "parts")

    def __init__(
        self,
        kind: str,
        parts: tuple[Node, ...] = (),
        characters: frozenset[str] = frozenset(),
        low: int = 0,
        high: int = 0,
    ):
        self.kind = kind
        self.parts = parts
        self.characters = characters
        self.low = low
        self.high = high


def parse(expression: str, alphabet: frozenset[str] = ALPHABET) -> Node:
    """Return the tree of an expression for names that are made of `alphabet`. Raises RegexSyntaxError."""
    if len(expression) > _MAX_LENGTH:
        raise RegexSyntaxError(f"it has {len(expression)} characters, more than {_MAX_LENGTH}")
    parser = _Parser(expression, alphabet)
    node = parser.choice(0)
    if not parser.at_end:
        raise parser.error("unexpected )")
    return node


class _Parser:
    def __init__(self, text: str, alphabet: frozenset[str]):
        self.alphabet = alphabet
        self.text = text
        self.position = 0
        self.ignores_case = False

    @property
    def at_end(self) -> bool:
        return self.position == len(self.text)

    def error(self, what: str) -> RegexSyntaxError:
        return RegexSyntaxError(f"{what} at position {self.position}")

    def peek(self, text: str) -> bool:
        return self.text.startswith(text, self.position)

    def take(self, text: str) -> bool:
        found = self.peek(text)
        if found:
            self.position += len(text)
        return found

    def next(self) -> str:
        if self.at_end:
            raise self.error("the expression ends too early")
        self.position += 1
        return self.text[self.position - 1]

    # --- structure

    def choice(self, depth: int) -> Node:
        if depth > _MAX_DEPTH:
            raise self.error("groups are nested too deep")
        ignores_case = self.ignores_case
        parts = [self.sequence(depth)]
        while self.take("|"):
            parts.append(self.sequence(depth))
        # Flags hold to the end of the group they are set in.
        self.ignores_case = ignores_case
        return parts[0] if len(parts) == 1 else Node("choice", tuple(parts))

    def sequence(self, depth: int) -> Node:
        parts: list[Node] = []
        while not self.at_end and not self.peek("|") and not self.peek(")"):
            if self.take("\\Q"):
                *parts_before, last = self.quoted() or [Node("sequence")]
                parts += [*parts_before, self.repeated(last)]
                continue
            item = self.item(depth)
            if item is not None:
                parts.append(self.repeated(item))
        return Node("sequence", tuple(parts))

    def quoted(self) -> list[Node]:
        text, _, _ = self.text[self.position :].partition("\\E")
        self.position = min(self.position + len(text) + 2, len(self.text))
        return [self.literal(character) for character in text]

    def item(self, depth: int) -> Node | None:
        character = self.next()
        if character == "(":
            return self.group(depth)
        if character == "[":
            return Node("chars", characters=self.character_class())
        if character == "\\":
            return self.escape()
        if character == ".":
            return Node("chars", characters=self.alphabet)
        if character in "^$":
            return Node("start" if character == "^" else "end")
        if character in "*+?":
            self.position -= 1
            raise self.error(f"nothing to repeat before {character}")
        return self.literal(character)

    def group(self, depth: int) -> Node | None:
        if self.take("?P<") or self.take("?<"):
            name, found, _ = self.text[self.position :].partition(">")
            if not found or not name.isidentifier():
                raise self.error("a group's name is missing (looking back is not supported)")
            self.position += len(name) + 1
        elif self.take("?"):
            before = self.ignores_case
            if self.flags():
                return None
            node = self.closed(depth)
            self.ignores_case = before
            return node
        return self.closed(depth)

    def closed(self, depth: int) -> Node:
        node = self.choice(depth + 1)
        if not self.take(")"):
            raise self.error("missing )")
        return node

    def flags(self) -> bool:
        # True for (?flags), which holds for what follows; False when a group follows.
        on = True
        while True:
            character = self.next()
            if character in ":)":
                return character == ")"
            if character == "-" and on:
                on = False
            elif character == "i":
                self.ignores_case = on
            elif character not in _FLAGS:
                self.position -= 1
                raise self.error(f"(?{character} is not supported")

    def repeated(self, item: Node) -> Node:
        counts = self.repetition()
        while counts is not None:
            self.take("?")  # lazy: the same when the whole name has to match
            low, high = counts
            item = Node("repeat", (item,), low=low, high=high)
            start = self.position
            counts = self.repetition()
            if counts is not None:
                self.position = start
                raise self.error("a repetition of a repetition needs a group")
        return item

    def repetition(self) -> tuple[int, int] | None:
        for sign, counts in (("*", (0, -1)), ("+", (1, -1)), ("?", (0, 1))):
            if self.take(sign):
                return counts
        if not self.peek("{"):
            return None
        inside, closed, _ = self.text[self.position + 1 :].partition("}")
        low, comma, high = inside.partition(",")
        if not closed or not low.isdecimal() or not (high.isdecimal() or not high):
            return None  # a brace that stands for itself
        first = int(low)
        last = first if not comma else int(high) if high else -1
        if max(first, last) > _MAX_REPEAT or -1 < last < first:
            raise self.error(f"{{{inside}}} is not a number of repetitions up to {_MAX_REPEAT}")
        self.position += len(inside) + 2
        return first, last

    # --- characters

    def literal(self, character: str) -> Node:
        return Node("chars", characters=self.cased(frozenset(character)))

    def cased(self, characters: frozenset[str]) -> frozenset[str]:
        if self.ignores_case:
            characters = characters.union(*((character.lower(), character.upper()) for character in characters))
        return characters & self.alphabet

    def escape(self) -> Node:
        character = self.next()
        if character == "A":
            return Node("start")
        if character == "z":
            return Node("end")
        if character.lower() in _PERL:
            return Node("chars", characters=self.perl(character))
        return self.literal(self.escaped(character))

    def escaped(self, character: str) -> str:
        # A single character after a backslash.
        if character in _CONTROL:
            return _CONTROL[character]
        if character == "x":
            return self.hexadecimal()
        if character == "0":
            digits = "0"
            while len(digits) < 3 and not self.at_end and self.text[self.position] in string.octdigits:
                digits += self.next()
            return chr(int(digits, 8))
        if character.isascii() and character.isalnum():
            self.position -= 1
            raise self.error(f"\\{character} is not supported")
        return character

    def hexadecimal(self) -> str:
        if self.take("{"):
            digits, closed, _ = self.text[self.position :].partition("}")
            self.position += len(digits) + 1
        else:
            digits, closed = self.next() + self.next(), "}"
        if not closed or not digits or len(digits) > 6 or not set(digits) <= set(string.hexdigits):
            raise self.error("\\x needs hexadecimal digits")
        return chr(min(int(digits, 16), 0x10FFFF))

    def character_class(self) -> frozenset[str]:
        negated = self.take("^")
        found: frozenset[str] = frozenset()
        first = True
        while first or not self.take("]"):
            first = False
            found |= self.class_item()
        found = self.cased(found)
        return self.alphabet - found if negated else found

    def class_item(self) -> frozenset[str]:
        if self.take("[:"):
            name, closed, _ = self.text[self.position :].partition(":]")
            characters = _POSIX.get(name.removeprefix("^"))
            if not closed or characters is None:
                raise self.error("there is no such class of characters")
            self.position += len(name) + 2
            return self.alphabet - characters if name.startswith("^") else characters & self.alphabet
        low = self.next()
        if low == "\\":
            low = self.next()
            if low.lower() in _PERL:
                return self.perl(low)
            low = self.escaped(low)
        if not self.peek("-") or self.peek("-]"):
            return frozenset(low)
        self.take("-")
        high = self.next()
        if high == "\\":
            high = self.escaped(self.next())
        if high < low:
            raise self.error(f"{low}-{high} is no range")
        return frozenset(character for character in self.alphabet if low <= character <= high)

    def perl(self, character: str) -> frozenset[str]:
        characters = _PERL[character.lower()]
        return self.alphabet - characters if character.isupper() else characters & self.alphabet
