"""Rows of a batch that are kept until they are stored, to be written again without computing them again."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

#: Bytes that are kept in memory; what is more lies in a file without a name.
IN_MEMORY = 64 << 20


class RowSpool:
    """Passes batches of rows through and keeps them; each pass gives all from the first one on."""

    def __init__(self, in_memory: int = IN_MEMORY) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=in_memory)  # noqa: SIM115  it lives as long as this does
        self._end = 0
        self._sizes: list[int] = []

    def through(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield what earlier passes have kept, then what is left of `batches`."""
        import pyarrow as pa

        at = 0
        for size in [*self._sizes]:
            self._file.seek(at)
            at += size
            yield from pa.ipc.open_stream(self._file.read(size))
        for batch in batches:
            self._keep(batch)
            yield batch

    def _keep(self, batch: pa.RecordBatch) -> None:
        import pyarrow as pa

        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        data = sink.getvalue()
        self._file.seek(self._end)
        self._file.write(data)
        self._end += data.size
        self._sizes.append(data.size)

    def close(self) -> None:
        """Forget the rows."""
        self._file.close()
