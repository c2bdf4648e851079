# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The one codec of the protocol: it reads and writes any message by its plan, a table of fields.

A `Plan` says what one class looks like in one version; `barnabas.protocol.plan` makes plans when they are first needed.
`codec.pxd` holds the C types, `native.py` and `native.pxd` what touches memory.

Sources: https://kafka.apache.org/protocol and KIP-482 (compact types, tagged fields).
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from barnabas import _cython as cython  # type: ignore[no-redef]  # its stand-in

from barnabas.errors import (
    IllegalArgumentError,
    IllegalTypeError,
    KafkaError,
    ProtocolError,
    UnsupportedVersionError,
)
from barnabas.protocol.encoded_elements import EncodedElements
from barnabas.protocol.stored_records import StoredRecords

if not cython.compiled:
    from barnabas._cython import warn_of_slowness
    from barnabas.protocol.native import (
        allocated,
        get_slot,
        integer,
        load_f64,
        load_i8,
        load_i16,
        load_i32,
        load_i64,
        load_int32s,
        load_u8,
        load_u16,
        load_u32,
        new_object,
        octets,
        pause_collector,
        pointer,
        released,
        resized,
        resume_collector,
        set_slot,
        slot_of,
        store_8,
        store_16,
        store_32,
        store_64,
        store_f64,
        store_octets,
        stored,
        text,
    )

    warn_of_slowness()

    BOOL, INT8, INT16, UINT16, INT32, UINT32, INT64, FLOAT64, UUID, STRING, BYTES, RECORDS, STRUCT, ARRAY = range(14)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from barnabas.protocol.buffer import Buffer

KINDS: dict[str, int] = {
    "bool": BOOL,
    "int8": INT8,
    "int16": INT16,
    "uint16": UINT16,
    "int32": INT32,
    "uint32": UINT32,
    "int64": INT64,
    "float64": FLOAT64,
    "uuid": UUID,
    "string": STRING,
    "bytes": BYTES,
    "records": RECORDS,
}
_SIZES: dict[int, int] = {
    BOOL: 1,
    INT8: 1,
    INT16: 2,
    UINT16: 2,
    INT32: 4,
    UINT32: 4,
    INT64: 8,
    FLOAT64: 8,
    UUID: 16,
}
_RANGES: dict[int, tuple[int, int]] = {
    BOOL: (0, 1),
    INT8: (-(1 << 7), (1 << 7) - 1),
    INT16: (-(1 << 15), (1 << 15) - 1),
    UINT16: (0, (1 << 16) - 1),
    INT32: (-(1 << 31), (1 << 31) - 1),
    UINT32: (0, (1 << 32) - 1),
    INT64: (-(1 << 63), (1 << 63) - 1),
}
MAX_STRING = 0x7FFF
"""The longest string in UTF-8 bytes, compact or not, as in Kafka's own classes."""

SHIP_SEPARATELY = 4096
"""Records of at least this size are not copied into the message's buffer but become a part of their own."""

NEW: Any = ...
"""As a field's default: a new list, or a new struct with its own defaults."""


class FieldError(Exception):
    """What went wrong, on its way up to where the message's name is known; every level puts its field in front."""

    def __init__(self, reason: str, offset: int = -1, error: type[KafkaError] = ProtocolError) -> None:
        super().__init__(reason)
        self.reason = reason
        self.offset = offset
        self.error = error
        self.path = ""


class Field:
    """One field of one class in one version."""

    def __init__(
        self,
        cls: type,
        name: str,
        kind: str,
        *,
        compact: bool,
        nullable: bool,
        ignorable: bool,
        tag: int,
        default: Any,
        plan: Any,
    ) -> None:
        self.name = name
        self.type = kind
        self.element: Any = None
        if kind.startswith("[]"):
            self.element = Field(
                cls, name, kind[2:], compact=compact, nullable=False, ignorable=False, tag=-1, default=None, plan=plan
            )
        self.kind = ARRAY if self.element is not None else KINDS.get(kind, STRUCT)
        self.compact = compact
        self.nullable = nullable
        self.ignorable = ignorable
        self.tag = tag
        self.default = default
        self.plan = plan
        self.slot = slot_of(cls, name)
        self.min_size = self._min_size()
        self.low, self.high = _RANGES.get(self.kind, (0, 0))

    def _min_size(self) -> int:
        """Return the fewest bytes that a value takes, to bound an array's count before anything is allocated."""
        if self.kind == STRUCT:
            return 1 if self.nullable else max(self.plan.min_size, 1)
        return _SIZES.get(self.kind, 1 if self.compact else 2 if self.kind == STRING else 4)


class Plan:
    """What one class looks like in one version: the fields in wire order, the tagged ones, and those it lacks."""

    def __init__(self, cls: type, version: int, flexible: bool, fields: list[Field], absent: list[Field]) -> None:
        self.cls = cls
        self.version = version
        self.flexible = flexible
        self.all_fields = fields + absent
        self.present = fields
        self.fields = [field for field in fields if field.tag < 0]
        self.tagged = sorted((field for field in fields if field.tag >= 0), key=_tag_of)
        self.by_tag = {field.tag: field for field in self.tagged}
        self.absent = absent
        # What a decoder sets before it reads, because it may not find it.
        self.preset = absent + self.tagged
        self.min_size = int(flexible) + sum([field.min_size for field in self.fields])
        self.tags_slot = slot_of(cls, "unknown_tagged_fields")


def _tag_of(field: Field) -> int:
    return field.tag


def fresh_default(field: Field) -> Any:
    """Return the default of a field; never the same list or struct twice."""
    if field.default is not NEW:
        return field.default
    return [] if field.kind == ARRAY else blank(field.plan)


def blank(plan: Plan) -> Any:
    """Return a new instance with every field at its default."""
    instance = new_object(plan.cls)
    set_slot(instance, plan.tags_slot, None)
    for item in plan.all_fields:
        field: Field = item
        set_slot(instance, field.slot, fresh_default(field))
    return instance


def is_default(field: Field, value: Any) -> bool:
    """Whether a field need not be written: tagged fields are left out at their default, absent ones must be at it."""
    if value is field.default:
        return True
    if field.default is not NEW:
        return value is not None and bool(value == field.default)
    if field.kind == ARRAY:
        return isinstance(value, list | tuple) and len(value) == 0
    plan: Plan = field.plan
    if type(value) is not plan.cls:
        return False
    for item in plan.all_fields:
        inner: Field = item
        if not is_default(inner, get_slot(value, inner.slot)):
            return False
    return not get_slot(value, plan.tags_slot)


def check_absent(plan: Plan, instance: Any) -> int:
    """Refuse to drop silently what a version cannot carry, unless the schema allows it (ignorable)."""
    for item in plan.absent:
        field: Field = item
        if not field.ignorable and not is_default(field, get_slot(instance, field.slot)):
            trouble = FieldError(f"version {plan.version} cannot carry it", error=UnsupportedVersionError)
            trouble.path = "." + field.name
            raise trouble
    return 0


#: An object takes a hundred times as much memory as the byte or two that announce an element, and more time: so many
#: elements are what a broker takes in one message, in all its arrays together.
MAX_ELEMENTS = 1 << 18
_ANY_NUMBER = 0x7FFFFFFF


class Decoder:
    """Reads one buffer. Nothing is allocated that the bytes at hand do not justify.

    `max_elements` is how many elements all arrays together may have, unknown tagged fields included.
    """

    def __init__(self, data: Buffer, start: int, end: int, max_elements: int = _ANY_NUMBER) -> None:
        view = memoryview(data)
        if view.ndim != 1 or view.itemsize != 1 or view.format != "B":
            view = view.cast("B")
        self.source = view
        self.view = view
        self.data = pointer(self.view)
        self.position = start
        self.end = len(view) if end < 0 else end
        self.room = max_elements

    def message(self, plan: Plan) -> Any:
        """Read one message; `ProtocolError` with the field's path and the offset when the bytes are malformed."""
        # All that is made here stays alive, so a collection would only cost: half the time of a large message.
        was_on: cython.bint = pause_collector()
        try:
            return self._read_struct(plan)
        except FieldError as trouble:
            raise protocol_error(plan, trouble) from None
        finally:
            resume_collector(was_on)

    def finish(self, plan: Plan) -> None:
        """Check that nothing is left over."""
        if self.position != self.end:
            left = FieldError(f"{self.end - self.position} bytes follow the end of the message", self.position)
            raise protocol_error(plan, left)

    def offset(self) -> int:
        """Where the next read starts."""
        position: int = self.position
        return position

    def _read_struct(self, plan: Plan) -> Any:
        instance = new_object(plan.cls)
        set_slot(instance, plan.tags_slot, None)
        field: Field
        for item in plan.preset:
            field = item
            set_slot(instance, field.slot, fresh_default(field))
        try:
            for item in plan.fields:
                field = cython.cast(Field, item)
                set_slot(instance, field.slot, self._read_value(field))
        except FieldError as trouble:
            trouble.path = "." + field.name + trouble.path
            raise
        if plan.flexible:
            self._read_tags(plan, instance)
        return instance

    def _read_value(self, field: Field) -> Any:
        kind: cython.int = field.kind
        if kind < FLOAT64:
            return self._read_integer(field)
        if kind == ARRAY:
            return self._read_array(field)
        if kind == STRUCT and field.nullable:
            return self._read_optional_struct(field)
        return self._read_scalar(field)

    def _read_scalar(self, field: Field) -> Any:
        kind: cython.int = field.kind
        if kind < FLOAT64:
            return self._read_integer(field)
        if kind == STRUCT:
            return self._read_struct(field.plan)
        if kind != UUID and kind != FLOAT64:
            return self._read_sized(field)
        size: cython.Py_ssize_t = 16 if kind == UUID else 8
        self._need(size)
        at: cython.Py_ssize_t = self.position
        self.position = at + size
        return octets(self.data, at, 16) if kind == UUID else load_f64(self.data, at)

    def _read_integer(self, field: Field) -> Any:
        kind: cython.int = field.kind
        at: cython.Py_ssize_t = self.position
        after: cython.Py_ssize_t = at + field.min_size
        if after > self.end:
            self._need(field.min_size)
        self.position = after
        if kind == INT32:
            return load_i32(self.data, at)
        if kind == INT16:
            return load_i16(self.data, at)
        if kind == INT64:
            return load_i64(self.data, at)
        if kind == INT8:
            return load_i8(self.data, at)
        if kind == BOOL:
            return load_u8(self.data, at) != 0
        if kind == UINT16:
            return load_u16(self.data, at)
        return load_u32(self.data, at)

    def _read_sized(self, field: Field) -> Any:
        """Return a string, bytes or records: a length, then as many bytes."""
        start: cython.Py_ssize_t = self.position
        size: cython.Py_ssize_t = self._read_length(field)
        if size < 0:
            return None
        self._need(size)
        at: cython.Py_ssize_t = self.position
        self.position = at + size
        if field.kind == BYTES:
            return octets(self.data, at, size)
        if field.kind == RECORDS:
            return self.source[at : at + size]
        if size > MAX_STRING:
            raise FieldError(f"a string of {size} bytes is longer than the {MAX_STRING} allowed", start)
        try:
            return text(self.data, at, size)
        except UnicodeDecodeError as error:
            raise FieldError(f"the string is not UTF-8 ({error.reason})", at + error.start) from None

    def _read_optional_struct(self, field: Field) -> Any:
        self._need(1)
        mark: cython.int = load_i8(self.data, self.position)
        self.position += 1
        # A tagged one is null at 0. Logs that barnabas wrote before it knew that have -1.
        is_null: cython.bint = mark < 0 or (mark == 0 and field.tag >= 0)
        return None if is_null else self._read_struct(field.plan)

    def _read_array(self, field: Field) -> Any:
        start: cython.Py_ssize_t = self.position
        count: cython.Py_ssize_t = self._read_length(field)
        if count < 0:
            return None
        element: Field = field.element
        if count > (self.end - self.position) // element.min_size:
            left = self.end - self.position
            raise FieldError(
                f"{count} elements of at least {element.min_size} bytes cannot fit into {left} bytes", start
            )
        self._take_room(count, start)
        if element.kind == STRUCT:
            return self._read_structs(element.plan, count)
        if element.kind == INT32:
            return self._read_int32s(count)
        items: list[Any] = []
        try:
            while count > 0:
                items.append(self._read_scalar(element))
                count -= 1
        except FieldError as trouble:
            trouble.path = f"[{len(items)}]"
            raise
        return items

    def _read_structs(self, plan: Plan, count: cython.Py_ssize_t) -> list[Any]:
        items: list[Any] = []
        try:
            while count > 0:
                items.append(self._read_struct(plan))
                count -= 1
        except FieldError as trouble:
            trouble.path = f"[{len(items)}]{trouble.path}"
            raise
        return items

    def _read_int32s(self, count: cython.Py_ssize_t) -> list[int]:
        at: cython.Py_ssize_t = self.position
        self.position = at + 4 * count
        return load_int32s(self.data, at, count)

    def _read_tags(self, plan: Plan, instance: Any) -> Any:
        """Return the tagged fields at the end of a flexible struct.

        Those that the schema does not know are kept as bytes.
        """
        count: cython.longlong = self._read_unsigned_varint()
        unknown: dict[int, bytes] = {}
        while count > 0:
            count -= 1
            tag: cython.longlong = self._read_unsigned_varint()
            size: cython.longlong = self._read_unsigned_varint()
            self._need(size)
            start: cython.Py_ssize_t = self.position
            found = plan.by_tag.get(tag)
            if found is None:
                self._take_room(1, start)
                unknown[tag] = octets(self.data, start, size)
                self.position = start + size
                continue
            field: Field = found
            try:
                set_slot(instance, field.slot, self._read_value(field))
            except FieldError as trouble:
                trouble.path = "." + field.name + trouble.path
                raise
            if self.position != start + size:
                off = FieldError(f"the field has {self.position - start} bytes, its tag says {size}", start)
                off.path = "." + field.name
                raise off
        if unknown:
            set_slot(instance, plan.tags_slot, unknown)
        return None

    def _take_room(self, count: cython.Py_ssize_t, start: cython.Py_ssize_t) -> int:
        if count > self.room:
            raise FieldError(f"{count} elements are more than the {self.room} that the message may still have", start)
        self.room -= count
        return 0

    def _need(self, size: cython.Py_ssize_t) -> int:
        if size > self.end - self.position:
            raise FieldError(f"{size} bytes are needed, {self.end - self.position} are left", self.position)
        return 0

    def _read_unsigned_varint(self) -> int:
        start: cython.Py_ssize_t = self.position
        at: cython.Py_ssize_t = start
        value: cython.longlong = 0
        shift: cython.int = 0
        while shift < 35:
            if at >= self.end:
                raise FieldError("the buffer ends within a variable-length integer", start)
            byte: cython.longlong = load_u8(self.data, at)
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value > 0xFFFFFFFF:
                    break
                self.position = at
                return value
            shift += 7
        raise FieldError("a variable-length integer does not fit into 32 bits", start)

    def _read_length(self, field: Field) -> int:
        """Return the length of a string, of bytes or of an array; -1 stands for null."""
        start: cython.Py_ssize_t = self.position
        length: cython.longlong
        if field.compact:
            length = self._read_unsigned_varint() - 1
        elif field.kind == STRING:
            self._need(2)
            length = load_i16(self.data, start)
            self.position = start + 2
        else:
            self._need(4)
            length = load_i32(self.data, start)
            self.position = start + 4
        if length < -1:
            raise FieldError(f"the length is {length}", start)
        if length == -1 and not field.nullable:
            raise FieldError("the field is null, which it cannot be", start)
        return length


class Encoder:
    """Writes into one growing buffer; large records become parts of their own."""

    def __init__(self, *, split: bool = False) -> None:
        self.memory = allocated(256)
        self.size = 0
        self.capacity = 256
        self.shipped = 0
        self.parts: list[Any] | None = [] if split else None

    def __dealloc__(self) -> None:
        released(self.memory)

    def message(self, plan: Plan, instance: Any) -> None:
        """Write one message; a usage error with the field's path when a value does not fit its field."""
        try:
            self._write_struct(plan, instance)
        except FieldError as trouble:
            raise trouble.error(f"Cannot write {plan.cls.__name__}{trouble.path}: {trouble.reason}") from None

    def int32(self, value: int) -> None:
        """Write four bytes."""
        self._reserve(4)
        store_32(self.memory, self.size, value)
        self.size += 4

    def total(self) -> int:
        """How many bytes were written so far, parts included."""
        total: int = self.shipped + self.size
        return total

    def joined(self) -> bytes:
        """Everything that was written."""
        return stored(self.memory, self.size)

    def sized(self) -> bytes:
        """Everything that was written, whose first four bytes were left for the size of the rest."""
        store_32(self.memory, 0, self.size - 4)
        return stored(self.memory, self.size)

    def sized_parts(self) -> list[Any]:
        """As `sized`, in parts: what was copied, and large records as they came, in turn."""
        total = self.shipped + self.size - 4
        parts = self.parts or []
        if self.size:
            parts.append(bytearray(stored(self.memory, self.size)))
        store_prefix(parts[0], total)
        return parts

    def _write_struct(self, plan: Plan, instance: Any) -> int:
        if type(instance) is not plan.cls and not isinstance(instance, plan.cls):
            raise FieldError(f"{instance!r} is not a {plan.cls.__name__}", error=IllegalTypeError)
        if plan.absent:
            check_absent(plan, instance)
        field: Field
        value: Any = None
        try:
            for item in plan.fields:
                field = cython.cast(Field, item)
                value = get_slot(instance, field.slot)
                self._write_value(field, value)
        except FieldError as trouble:
            trouble.path = "." + field.name + trouble.path
            raise
        except (TypeError, ValueError, OverflowError, AttributeError, BufferError) as error:
            raise misfit(field, value, error) from None
        if plan.flexible:
            self._write_tags(plan, instance)
        return 0

    def _write_value(self, field: Field, value: Any) -> int:
        if field.kind == ARRAY:
            return self._write_array(field, value)
        if field.kind == STRUCT and field.nullable:
            self._reserve(1)
            null: cython.int = -1 if field.tag < 0 else 0
            store_8(self.memory, self.size, null if value is None else 1)
            self.size += 1
            if value is None:
                return 0
        return self._write_scalar(field, value)

    def _write_scalar(self, field: Field, value: Any) -> int:
        kind: cython.int = field.kind
        if kind < FLOAT64:
            return self._write_integer(field, value)
        if kind == STRUCT:
            return self._write_struct(field.plan, value)
        if kind == UUID:
            if len(value) != 16:
                raise FieldError(f"a uuid has 16 bytes, not {len(value)}", error=IllegalArgumentError)
            return self._write_octets(value)
        if kind == FLOAT64:
            self._reserve(8)
            store_f64(self.memory, self.size, value + 0.0)
            self.size += 8
            return 0
        return self._write_sized(field, value)

    def _write_integer(self, field: Field, value: Any) -> int:
        number: cython.longlong = integer(value)
        if number < field.low or number > field.high:
            raise FieldError(f"{value!r} does not fit into {field.type}", error=IllegalArgumentError)
        kind: cython.int = field.kind
        self._reserve(8)
        at: cython.Py_ssize_t = self.size
        if kind in (INT32, UINT32):
            store_32(self.memory, at, number)
        elif kind in (INT16, UINT16):
            store_16(self.memory, at, number)
        elif kind == INT64:
            store_64(self.memory, at, number)
        else:
            store_8(self.memory, at, number)
        self.size = at + field.min_size
        return 0

    def _write_sized(self, field: Field, value: Any) -> int:
        if value is None:
            return self._write_length(field, -1)
        if field.kind == STRING:
            encoded: bytes = value.encode()
            if len(encoded) > MAX_STRING:
                reason = f"its {len(encoded)} bytes are more than the {MAX_STRING} that a string may have"
                raise FieldError(reason, error=IllegalArgumentError)
            self._write_length(field, len(encoded))
            return self._write_octets(encoded)
        if field.kind == RECORDS and self.parts is not None and isinstance(value, StoredRecords):
            self._write_length(field, len(value))
            return self._ship(value)
        data = value if type(value) is bytes else memoryview(value).cast("B")
        self._write_length(field, len(data))
        if field.kind == RECORDS and self.parts is not None and len(data) >= SHIP_SEPARATELY:
            return self._ship(data)
        return self._write_octets(data)

    def _write_array(self, field: Field, value: Any) -> int:
        if value is None:
            return self._write_length(field, -1)
        count: cython.Py_ssize_t = len(value)
        self._write_length(field, count)
        if type(value) is EncodedElements:
            return self._write_encoded(value)
        index: cython.Py_ssize_t = 0
        kind: Field = field.element
        element: Any = None
        try:
            for element in value:
                self._write_scalar(kind, element)
                index += 1
        except FieldError as trouble:
            trouble.path = f"[{index}]{trouble.path}"
            raise
        except (TypeError, ValueError, OverflowError, AttributeError) as error:
            off = misfit(kind, element, error)
            off.path = f"[{index}]"
            raise off from None
        if index != count:
            raise FieldError(f"it changed from {count} to {index} elements meanwhile", error=IllegalArgumentError)
        return 0

    def _write_encoded(self, elements: Any) -> int:
        for part in elements.parts:
            if self.parts is not None and len(part) >= SHIP_SEPARATELY:
                self._ship(part)
            else:
                self._write_octets(part)
        return 0

    def _write_tags(self, plan: Plan, instance: Any) -> int:
        unknown = get_slot(instance, plan.tags_slot)
        if not plan.tagged and not unknown:
            self._reserve(1)
            store_8(self.memory, self.size, 0)
            self.size += 1
            return 0
        contents: dict[int, bytes] = checked_tags(plan, unknown) if unknown else {}
        for item in plan.tagged:
            field: Field = item
            value = get_slot(instance, field.slot)
            if not is_default(field, value):
                contents[field.tag] = self._tag_content(field, value)
        self._write_unsigned_varint(len(contents))
        for tag in sorted(contents):
            content = contents[tag]
            self._write_unsigned_varint(tag)
            self._write_unsigned_varint(len(content))
            self._write_octets(content)
        return 0

    def _tag_content(self, field: Field, value: Any) -> bytes:
        encoder = Encoder()
        try:
            encoder._write_value(field, value)
        except FieldError as trouble:
            trouble.path = "." + field.name + trouble.path
            raise
        except (TypeError, ValueError, OverflowError, AttributeError) as error:
            raise misfit(field, value, error) from None
        return encoder.joined()

    def _write_length(self, field: Field, length: cython.Py_ssize_t) -> int:
        if length < 0 and not field.nullable:
            raise FieldError("it cannot be None in this version", error=IllegalArgumentError)
        if field.compact:
            return self._write_unsigned_varint(length + 1)
        self._reserve(4)
        if field.kind == STRING:
            store_16(self.memory, self.size, length)
            self.size += 2
        else:
            store_32(self.memory, self.size, length)
            self.size += 4
        return 0

    def _write_octets(self, data: Any) -> int:
        size: cython.Py_ssize_t = len(data)
        self._reserve(size)
        store_octets(self.memory, self.size, data)
        self.size += size
        return 0

    def _ship(self, data: Any) -> int:
        """Let a large buffer follow what was written so far, without a copy."""
        parts: Any = self.parts
        if self.size:
            parts.append(bytearray(stored(self.memory, self.size)))
        parts.append(data)
        self.shipped += self.size + len(data)
        self.size = 0
        return 0

    def _reserve(self, size: cython.Py_ssize_t) -> int:
        wanted: cython.Py_ssize_t = self.size + size
        if wanted > self.capacity:
            self.capacity = max(wanted, 2 * self.capacity)
            self.memory = resized(self.memory, self.capacity)
        return 0

    def _write_unsigned_varint(self, value: cython.longlong) -> int:
        if value < 0 or value > 0xFFFFFFFF:
            raise FieldError(f"{value} does not fit into 32 bits", error=IllegalArgumentError)
        self._reserve(5)
        at: cython.Py_ssize_t = self.size
        rest: cython.longlong = value
        while rest > 0x7F:
            store_8(self.memory, at, rest | 0x80)
            rest >>= 7
            at += 1
        store_8(self.memory, at, rest)
        self.size = at + 1
        return 0


def checked_tags(plan: Plan, unknown: Any) -> dict[int, bytes]:
    """Return the tagged fields that the schema does not know, if they can be written."""
    for tag, content in unknown.items() if isinstance(unknown, dict) else ((None, unknown),):
        reason = None
        if type(tag) is not int or not isinstance(content, bytes):
            reason = f"{{{tag!r}: {content!r}}} is not a number and bytes"
        elif not 0 <= tag <= 0xFFFFFFFF:
            reason = f"the tag {tag} does not fit into 32 bits"
        elif tag in plan.by_tag:
            reason = f"the tag {tag} is that of {plan.by_tag[tag].name}"
        if reason is not None:
            off = FieldError(reason, error=IllegalArgumentError)
            off.path = ".unknown_tagged_fields"
            raise off
    return dict(unknown)


def store_prefix(part: bytearray, value: int) -> None:
    """Put the size of the message into the four bytes left for it."""
    part[:4] = value.to_bytes(4, "big")


def misfit(field: Field, value: Any, error: Exception) -> FieldError:
    """Return the trouble with a value that is not of its field's type."""
    shown = repr(value)
    shown = shown if len(shown) <= 80 else shown[:77] + "..."
    wrong_type = isinstance(error, TypeError | AttributeError)
    kind = IllegalTypeError if wrong_type else IllegalArgumentError
    trouble = FieldError(f"{shown} is not a value for {field.type}", error=kind)
    trouble.path = "." + field.name
    return trouble


def protocol_error(plan: Plan, trouble: FieldError) -> ProtocolError:
    """Return the error for malformed bytes, with the field's path and the offset."""
    path = plan.cls.__name__ + trouble.path
    error = ProtocolError(f"{path} at byte {trouble.offset}: {trouble.reason} (version {plan.version})")
    error.path = path
    error.offset = trouble.offset
    return error
