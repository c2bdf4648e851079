# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Documents of JSON in which a number may stand to a constant as a filter says: one pass over their bytes.

Nothing is decoded. More rows may be named than match, never fewer: a name counts wherever it stands in the document,
and what is not JSON, or writes the name with an escape, is left to those who decode it. C types are in
`number_search.pxd`.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from barnabas import _cython as cython  # type: ignore[no-redef]  # its stand-in

from typing import TYPE_CHECKING

if not cython.compiled:
    from barnabas.records.native import bytearray_address, new_bytearray, view_address
    from barnabas.records.rows import BinaryRows

if TYPE_CHECKING:
    import pyarrow as pa

#: Characters that JSON may write with a short escape; any other one is hidden by \\u alone.
_SHORT_ESCAPES = frozenset('"\\/\b\f\n\r\t')
_TESTS = {"=": 0, "<": 1, "<=": 2, ">": 3, ">=": 4}
#: A double is what so many digits say; of more it may be off by far less than `_NEAR` of it.
_EXACT_DIGITS = cython.declare(cython.Py_ssize_t, 15)
_MOST_DIGITS = cython.declare(cython.Py_ssize_t, 300)
_NEAR = cython.declare(cython.double, 1e-12)
_QUOTE = cython.declare(cython.uchar, 0x22)
_MINUS = cython.declare(cython.uchar, 0x2D)
_POINT = cython.declare(cython.uchar, 0x2E)
_BACKSLASH = cython.declare(cython.uchar, 0x5C)


class NumberSearch:
    """Finds rows in which a number under `name` may fulfil a test; without a name, any number of the document.

    `test` is one of = < <= > >=. Raises `OverflowError` for an integer that no double is near to.
    """

    def __init__(self, name: str | None, test: str, wanted: float) -> None:
        # A lone surrogate can stand in JSON as an escape only, and these bytes in no text.
        self.name = b"" if name is None else name.encode("utf-8", "surrogatepass")
        self.name_view = memoryview(self.name or b"\0")
        self.name_data = view_address(self.name_view)
        self.name_size = -1 if name is None else len(self.name)
        self.has_short_escapes = not _SHORT_ESCAPES.isdisjoint(name or "")
        self.test = _TESTS[test]
        self.wanted = float(wanted)
        self.position = 0

    def rows(self, data: pa.Array) -> pa.Array:
        """Return a boolean for each row of a binary column; false for null."""
        import pyarrow as pa

        values = BinaryRows(data)
        count: cython.Py_ssize_t = len(data)
        found = new_bytearray(count)
        bits = bytearray_address(found)
        row: cython.Py_ssize_t = 0
        start: cython.Py_ssize_t
        while row < count:
            start = 0 if values.is_null(row) else values.start(row)
            bits[row] = not values.is_null(row) and self.may_match(values.data, start, start + values.size(row))
            row += 1
        return pa.Array.from_buffers(pa.uint8(), count, [None, pa.py_buffer(found)]).cast(pa.bool_())

    def may_match(self, data: cython.p_uchar, start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> bool:
        """Whether a document, the bytes from `start` to `end`, may have such a number."""
        byte: cython.uchar
        if start == end:
            return False
        if data[start] != 0x7B and data[start] != 0x5B:
            return True
        self.position = start
        while self.position < end:
            byte = data[self.position]
            self.position += 1
            if byte == _BACKSLASH:
                if self.hides_name(data, end):
                    return True
            elif self.name_size < 0:
                if self.begins_number(data, start) and self.number_fits(data, end):
                    return True
            elif byte == _QUOTE and self.is_name(data, end) and self.number_fits(data, end):
                return True
        return False

    def hides_name(self, data: cython.p_uchar, end: cython.Py_ssize_t) -> bool:
        """Whether the escape whose backslash was just read may be a part of the name."""
        if self.name_size < 0:
            return False
        return self.has_short_escapes or (self.position < end and data[self.position] == 0x75)

    def begins_number(self, data: cython.p_uchar, start: cython.Py_ssize_t) -> bool:
        """Whether the byte just read is the first one of a number; if so, stand on it."""
        at: cython.Py_ssize_t = self.position - 1
        byte: cython.uchar = data[at]
        before: cython.uchar = data[at - 1] if at > start else 0
        # NaN and Infinity, which Python reads, are numbers too.
        if not (0x30 <= byte <= 0x39 or byte == _MINUS or byte == 0x49 or byte == 0x4E):
            return False
        if before > 0x20 and before != 0x5B and before != 0x2C and before != 0x3A:
            return False
        self.position = at
        return True

    def is_name(self, data: cython.p_uchar, end: cython.Py_ssize_t) -> bool:
        """Whether the name, its quote and a colon follow; if so, stand on the value."""
        at: cython.Py_ssize_t = self.position
        index: cython.Py_ssize_t = 0
        if self.name_size >= end - at:
            return False
        while index < self.name_size:
            if data[at + index] != self.name_data[index]:
                return False
            index += 1
        at += index
        if data[at] != _QUOTE:
            return False
        at += 1
        while at < end and data[at] <= 0x20:
            at += 1
        if at == end or data[at] != 0x3A:
            return False
        at += 1
        while at < end and data[at] <= 0x20:
            at += 1
        self.position = at
        return True

    def number_fits(self, data: cython.p_uchar, end: cython.Py_ssize_t) -> bool:
        """Whether the number that begins here may fit; step over its digits."""
        at: cython.Py_ssize_t = self.position
        is_negative: cython.bint = at < end and data[at] == _MINUS
        value: cython.double = 0.0
        scale: cython.double = 1.0
        digits: cython.Py_ssize_t = 0
        is_fraction: cython.bint = False
        if is_negative:
            at += 1
        if at < end and (data[at] == 0x49 or data[at] == 0x4E):
            return True
        while at < end and digits < _MOST_DIGITS:
            if 0x30 <= data[at] <= 0x39:
                value = value * 10.0 + (data[at] - 0x30)
                digits += 1
                if is_fraction:
                    scale *= 10.0
            elif data[at] == _POINT and not is_fraction:
                is_fraction = True
            else:
                break
            at += 1
        if digits == 0:
            return False
        self.position = at
        if digits == _MOST_DIGITS or (at < end and (data[at] == 0x65 or data[at] == 0x45)):
            return True
        value = value / scale
        return self.fits(-value if is_negative else value, digits <= _EXACT_DIGITS)

    def fits(self, value: cython.double, is_exact: cython.bint) -> bool:
        """Whether a value fulfils the test, or is so near to the constant that its digits do not tell."""
        off: cython.double = value - self.wanted
        bound: cython.double = value if value >= 0 else -value
        if not is_exact and -_NEAR * bound <= off <= _NEAR * bound:
            return True
        if self.test == 0:
            return off == 0
        if self.test == 1:
            return off < 0
        if self.test == 2:
            return off <= 0
        return off > 0 if self.test == 3 else off >= 0
