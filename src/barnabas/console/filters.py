"""A small language for finding records: comparisons of keys, values, headers and paths in documents; no code.

    value.order.total > 100 and header.source = "web" and not key startswith "test-"

A filter is read once into conditions, whose size is bounded. Each condition answers twice: `mask` says for a whole
Arrow batch which rows may match (more than do, never fewer), and `matches` is exact for one row. So most rows of a
scan are never looked at one by one, and no document is decoded that cannot match.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from barnabas.client.position_syntax import parse_time
from barnabas.console.number_search import NumberSearch
from barnabas.errors import IllegalArgumentError

if TYPE_CHECKING:
    import pyarrow as pa

LONGEST = 2000
DEEPEST = 20
_TOKEN = re.compile(
    r"""\s*(?:(?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')"""
    r"""|(?P<sign><=|>=|!=|=|<|>|\(|\)|\[|\]|\.|\*)|(?P<word>[A-Za-z_@$][\w@$-]*))""",
    re.DOTALL,
)
_COLUMNS = ("partition", "offset", "timestamp", "size")
_ROOTS = ("key", "value", "header", *_COLUMNS)
_CONSTANTS = {"true": True, "false": False, "null": None}
_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_TEXT_TESTS: dict[str, Callable[[Any, Any], bool]] = {
    "contains": lambda found, wanted: wanted in found,
    "startswith": lambda found, wanted: found.startswith(wanted),
    "endswith": lambda found, wanted: found.endswith(wanted),
}
#: Texts that stand in JSON as they are, unless they were escaped, which takes a backslash.
_PLAIN = re.compile(r"[A-Za-z0-9 _.:@#+-]+")
_ANY = object()
_EXPECTED = (
    "such as: key = \"a\", value.order.total > 100, value.items[*].id = 5, header.source contains \"web\", "
    "timestamp >= \"2013-06-01\", value = null, value.note exists, joined with and, or, not, ( )"
)  # fmt: skip


class Row(Protocol):
    """A record as conditions see it: raw bytes, columns, and documents decoded when they are asked for."""

    key: bytes | None
    value: bytes | None

    def column(self, name: str) -> int:
        """Return partition, offset, timestamp (epoch ms) or size (bytes of key and value)."""

    def document(self, side: str) -> Any:
        """Return the decoded key or value."""

    def header_values(self, name: str) -> list[bytes | None]:
        """Return the values of the headers of a name."""


class Mask(NamedTuple):
    """Which rows may match (a boolean array; None: any); `is_exact` when those and no others do."""

    rows: Any
    is_exact: bool


ANY_ROW = Mask(None, False)


class Condition(Protocol):
    """A part of a filter."""

    def matches(self, row: Row) -> bool:
        """Whether a record fulfils it."""

    def mask(self, batch: pa.RecordBatch, *, is_plain: bool) -> Mask:
        """Return the rows that may fulfil it; `is_plain`: documents have names and texts as they lie in the bytes."""


class And(NamedTuple):
    """Both."""

    left: Condition
    right: Condition

    def matches(self, row: Row) -> bool:
        """See `Condition`."""
        return self.left.matches(row) and self.right.matches(row)

    def mask(self, batch: pa.RecordBatch, *, is_plain: bool) -> Mask:
        """See `Condition`."""
        import pyarrow.compute as pc

        left, right = self.left.mask(batch, is_plain=is_plain), self.right.mask(batch, is_plain=is_plain)
        if left.rows is None or right.rows is None:
            return Mask(right.rows if left.rows is None else left.rows, False)
        return Mask(pc.and_(left.rows, right.rows), left.is_exact and right.is_exact)


class Or(NamedTuple):
    """Either."""

    left: Condition
    right: Condition

    def matches(self, row: Row) -> bool:
        """See `Condition`."""
        return self.left.matches(row) or self.right.matches(row)

    def mask(self, batch: pa.RecordBatch, *, is_plain: bool) -> Mask:
        """See `Condition`."""
        import pyarrow.compute as pc

        left, right = self.left.mask(batch, is_plain=is_plain), self.right.mask(batch, is_plain=is_plain)
        if left.rows is None or right.rows is None:
            return ANY_ROW
        return Mask(pc.or_(left.rows, right.rows), left.is_exact and right.is_exact)


class Not(NamedTuple):
    """The opposite."""

    inner: Condition

    def matches(self, row: Row) -> bool:
        """See `Condition`."""
        return not self.inner.matches(row)

    def mask(self, batch: pa.RecordBatch, *, is_plain: bool) -> Mask:
        """See `Condition`."""
        import pyarrow.compute as pc

        inner = self.inner.mask(batch, is_plain=is_plain)
        return Mask(pc.invert(inner.rows), True) if inner.is_exact else ANY_ROW


class Compare(NamedTuple):
    """A place in a record against a constant; `test` is an operator of the language.

    `steps` lead into the document: names, indexes, or `_ANY` for every element.
    """

    root: str
    steps: tuple[Any, ...]
    test: str
    wanted: Any

    def matches(self, row: Row) -> bool:
        """See `Condition`."""
        found = list(self._found(row))
        if self.test == "exists":
            return bool(found)
        return any(holds(value, self.test, self.wanted) for value in found)

    def _found(self, row: Row) -> Iterator[Any]:
        if self.root in _COLUMNS:
            yield row.column(self.root)
        elif self.root == "header":
            yield from (None if v is None else v.decode("utf-8", "replace") for v in row.header_values(self.steps[0]))
        elif self.steps:
            yield from walk(row.document(self.root), self.steps)
        else:
            data = row.key if self.root == "key" else row.value
            yield None if data is None else data.decode("utf-8", "surrogateescape")

    def mask(self, batch: pa.RecordBatch, *, is_plain: bool) -> Mask:
        """See `Condition`."""
        if self.root in ("partition", "offset"):
            return _of_number(batch.column(self.root), self.test, self.wanted)
        if self.root in ("key", "value"):
            data = batch.column(self.root)
            if not self.steps:
                return _of_bytes(data, self)
            return self._of_document(data) if is_plain else ANY_ROW
        return ANY_ROW

    def _of_document(self, data: Any) -> Mask:
        """Rows whose bytes have what a match needs, the names of its path and a text, or an escape that may hide it."""
        import pyarrow.compute as pc

        if _is_number(self.wanted) and (self.test == "=" or self.test in _ORDER):
            return self._of_number_within(data)
        needed = [step for step in self.steps if isinstance(step, str)]
        if isinstance(self.wanted, str) and self.test in ("=", *_TEXT_TESTS):
            needed.append(self.wanted)
        longest = max((text for text in needed if _PLAIN.fullmatch(text)), key=len, default=None)
        if longest is None:
            return ANY_ROW
        # One pass over the bytes for both: it costs what one text does.
        found = pc.match_substring_regex(data, f"{re.escape(longest)}|{re.escape(chr(92))}")
        return Mask(pc.fill_null(found, False), False)

    def _of_number_within(self, data: Any) -> Mask:
        """Rows in which such a number stands under the last name of the path, or anywhere where an index is last."""
        last = self.steps[-1]
        try:
            search = NumberSearch(last if isinstance(last, str) else None, self.test, self.wanted)
        except OverflowError:
            return ANY_ROW
        return Mask(search.rows(data), False)


def holds(found: Any, test: str, wanted: Any) -> bool:
    """Whether a value stands to a constant as an operator says; false for values of different kinds."""
    if test == "=":
        return _is_equal(found, wanted)
    if test in _ORDER:
        both_numbers = _is_number(found) and _is_number(wanted)
        both_texts = isinstance(found, str) and isinstance(wanted, str)
        return (both_numbers or both_texts) and _ORDER[test](found, wanted)
    if test == "contains" and isinstance(found, list):
        return any(_is_equal(item, wanted) for item in found)
    return isinstance(found, str) and isinstance(wanted, str) and _TEXT_TESTS[test](found, wanted)


def _is_equal(found: Any, wanted: Any) -> bool:
    # Python takes True for 1; JSON does not.
    if isinstance(found, bool) or isinstance(wanted, bool):
        return found is wanted
    return bool(found == wanted)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def walk(document: Any, steps: tuple[Any, ...]) -> Iterator[Any]:
    """Yield what lies at a path: one value, none, or with `[*]` any number."""
    if not steps:
        yield document
        return
    step, rest = steps[0], steps[1:]
    if step is _ANY:
        for item in document if isinstance(document, list) else ():
            yield from walk(item, rest)
    elif isinstance(step, int):
        if isinstance(document, list) and -len(document) <= step < len(document):
            yield from walk(document[step], rest)
    elif isinstance(document, dict) and step in document:
        yield from walk(document[step], rest)


def _of_number(column: Any, test: str, wanted: Any) -> Mask:
    import pyarrow.compute as pc

    tests = {"=": pc.equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal}
    if test not in tests or not _is_number(wanted) or abs(wanted) >= 2**63:
        return ANY_ROW
    return Mask(tests[test](column, wanted), True)


def _of_bytes(data: Any, compare: Compare) -> Mask:
    import pyarrow as pa
    import pyarrow.compute as pc

    if compare.test == "=" and compare.wanted is None:
        return Mask(pc.is_null(data), True)
    if not isinstance(compare.wanted, str):
        return ANY_ROW
    wanted = compare.wanted.encode("utf-8", "surrogateescape")
    if compare.test == "=":
        return Mask(pc.fill_null(pc.equal(data, pa.scalar(wanted, pa.binary())), False), True)
    tests = {"contains": pc.match_substring, "startswith": pc.starts_with, "endswith": pc.ends_with}
    if compare.test in tests:
        return Mask(pc.fill_null(tests[compare.test](data, wanted), False), True)
    return ANY_ROW


def sides(condition: Condition) -> set[str]:
    """Return which of key, value, header and columns a filter asks about."""
    if isinstance(condition, And | Or):
        return sides(condition.left) | sides(condition.right)
    if isinstance(condition, Not):
        return sides(condition.inner)
    assert isinstance(condition, Compare)
    return {condition.root}


def parse_filter(text: str, now_ms: int) -> Condition:
    """Read a filter. Raises `IllegalArgumentError` that says where it goes wrong, and what there is to write."""
    if len(text) > LONGEST:
        raise IllegalArgumentError(f"a filter has at most {LONGEST} characters, this one {len(text)}")
    return _Parser(_tokens(text), now_ms).whole()


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


def _tokens(text: str) -> list[_Token]:
    found, at = [], 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None:
            raise IllegalArgumentError(f"the filter goes wrong at {text[at : at + 20].strip()!r}; write {_EXPECTED}")
        kind = match.lastgroup or ""
        found.append(_Token(kind, match[kind], match.start(kind)))
        at = match.end()
    return [*found, _Token("end", "", len(text))]


class _Parser:
    def __init__(self, tokens: list[_Token], now_ms: int) -> None:
        self._tokens = tokens
        self._next = 0
        self._now_ms = now_ms
        self._depth = 0

    def whole(self) -> Condition:
        condition = self._either()
        if self._peek().kind != "end":
            raise self._wrong("and, or, or the end")
        return condition

    def _either(self) -> Condition:
        self._depth += 1
        if self._depth > DEEPEST:
            raise IllegalArgumentError(f"a filter has parentheses and not at most {DEEPEST} deep")
        condition = self._both()
        while self._takes("or"):
            condition = Or(condition, self._both())
        self._depth -= 1
        return condition

    def _both(self) -> Condition:
        condition = self._one()
        while self._takes("and"):
            condition = And(condition, self._one())
        return condition

    def _one(self) -> Condition:
        if self._takes("not"):
            self._depth += 1
            if self._depth > DEEPEST:
                raise IllegalArgumentError(f"a filter has parentheses and not at most {DEEPEST} deep")
            inner = Not(self._one())
            self._depth -= 1
            return inner
        if self._takes("("):
            condition = self._either()
            if not self._takes(")"):
                raise self._wrong(")")
            return condition
        return self._comparison()

    def _comparison(self) -> Condition:
        root = self._take()
        if root.kind != "word" or root.text not in _ROOTS:
            raise self._wrong(", ".join(_ROOTS), root)
        steps = tuple(self._steps())
        if root.text == "header" and (len(steps) != 1 or not isinstance(steps[0], str)):
            raise self._wrong("the name of a header, as in header.source")
        if root.text in _COLUMNS and steps:
            raise self._wrong(f"a comparison, for {root.text} has no parts")
        test = self._take()
        if test.text == "exists":
            return Compare(root.text, steps, "exists", None)
        if test.text not in ("=", "!=", *_ORDER, *_TEXT_TESTS):
            raise self._wrong("= != < <= > >= contains startswith endswith exists", test)
        wanted = self._constant()
        if root.text == "timestamp" and isinstance(wanted, str):
            moment = parse_time(wanted, self._now_ms)
            if moment is None:
                raise IllegalArgumentError(f'{wanted!r} is no time; write "2013-06-01T12:00" or "-5m"')
            wanted = moment
        if test.text == "!=":
            return Not(Compare(root.text, steps, "=", wanted))
        return Compare(root.text, steps, test.text, wanted)

    def _steps(self) -> Iterator[Any]:
        while True:
            if self._takes("."):
                name = self._take()
                if name.kind not in ("word", "text"):
                    raise self._wrong("a name", name)
                yield name.text if name.kind == "word" else _unquoted(name.text)
            elif self._takes("["):
                yield self._index()
                if not self._takes("]"):
                    raise self._wrong("]")
            else:
                return

    def _index(self) -> Any:
        index = self._take()
        if index.text == "*" and index.kind == "sign":
            return _ANY
        if index.kind == "text":
            return _unquoted(index.text)
        if index.kind != "number" or not index.text.lstrip("-").isdecimal() or len(index.text) > 9:
            raise self._wrong("an index, a quoted name, or *", index)
        return int(index.text)

    def _constant(self) -> Any:
        token = self._take()
        if token.kind == "text":
            return _unquoted(token.text)
        if token.kind == "number":
            return int(token.text) if token.text.lstrip("-").isdecimal() else float(token.text)
        if token.kind == "word" and token.text in _CONSTANTS:
            return _CONSTANTS[token.text]
        raise self._wrong("a number, a quoted text, true, false or null", token)

    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
        token = self._peek()
        self._next = min(self._next + 1, len(self._tokens) - 1)
        return token

    def _takes(self, text: str) -> bool:
        token = self._peek()
        if token.text != text or token.kind not in ("sign", "word"):
            return False
        self._take()
        return True

    def _wrong(self, expected: str, token: _Token | None = None) -> IllegalArgumentError:
        token = token or self._peek()
        found = repr(token.text) if token.kind != "end" else "the end"
        return IllegalArgumentError(
            f"the filter goes wrong at character {token.at + 1}, {found}: expected {expected}; write {_EXPECTED}"
        )


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL)
