"""What the clients' benchmarks send: keyed records, the same for all of them, made before the clock runs."""

from __future__ import annotations

import functools
from typing import Any

KEYS = [b"key-%06d" % number for number in range(1000)]
TABLE_ROWS = 10_000


@functools.cache
def table_of(value: bytes) -> Any:
    """Return an Arrow table of `TABLE_ROWS` records."""
    import pyarrow as pa

    keys = pa.array(KEYS * (TABLE_ROWS // len(KEYS)), pa.binary())
    return pa.table({"key": keys, "value": pa.array([value] * TABLE_ROWS, pa.binary())})


def tables_of(value: bytes, records: int) -> list[Any]:
    """Tables of so many records in all."""
    table = table_of(value)
    return [table.slice(0, min(TABLE_ROWS, records - start)) for start in range(0, records, TABLE_ROWS)]
