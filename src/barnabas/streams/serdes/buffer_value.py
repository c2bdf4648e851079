# cython: language_level=3, annotation_typing=False
"""What suppress and joins with grace keep for a record: prior, old and new value, where it came from (KIP-328).

C types are in `buffer_value.pxd`.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from barnabas import _cython as cython  # type: ignore[no-redef]  # its stand-in

from barnabas.streams.serdes.reader import Reader

if not cython.compiled:
    from barnabas.streams.serdes.reader import sized
    from barnabas.streams.serdes.record_context import RecordContext

_NULL = b"\xff\xff\xff\xff"
_SAME_AS_PRIOR = b"\xff\xff\xff\xfe"


@cython.no_gc
@cython.freelist(64)
@cython.cclass
class BufferValue:
    """Bytes of the prior value (before the key was buffered), the old and the new one, and the record's context."""

    if not cython.compiled:
        __slots__ = ("context", "new_value", "old_value", "prior_value")

    def __init__(
        self,
        prior_value: bytes | None,
        old_value: bytes | None,
        new_value: bytes | None,
        context: RecordContext,
    ) -> None:
        self.prior_value = prior_value
        self.old_value = old_value
        self.new_value = new_value
        self.context = context

    def memory_size(self) -> int:
        """Return Kafka's estimate of the bytes that it takes."""
        size = len(self.prior_value or b"") + len(self.new_value or b"") + self.context.memory_size()
        return size if self.prior_value == self.old_value else size + len(self.old_value or b"")

    def to_bytes(self) -> bytes:
        """Write it as changelogs hold it, without the time that follows there."""
        if self.old_value is None:
            old = _NULL
        elif self.old_value == self.prior_value:
            old = _SAME_AS_PRIOR
        else:
            old = sized(self.old_value)
        return b"".join((self.context.to_bytes(), sized(self.prior_value), old, sized(self.new_value)))

    @classmethod
    def from_bytes(cls, reader: Reader) -> BufferValue:
        """Read it. Raises `StreamsError` when bytes are missing."""
        context = RecordContext.from_bytes(reader)
        prior = reader.sized()
        length = reader.int()
        old = prior if length == -2 else reader.exactly(length)
        return cls(prior, old, reader.sized(), context)
