"""What a read answers (FetchDataInfo), and how far it may look (FetchIsolation)."""

from __future__ import annotations

from typing import NamedTuple

from barnabas.broker.log.transaction_index import AbortedTxn

READ_UNCOMMITTED = 0
"""Up to the high watermark."""
READ_COMMITTED = 1
"""Up to the last stable offset, with the aborted transactions among what is read."""


class FetchDataInfo(NamedTuple):
    """Bytes of the log from the batch on that holds the offset asked for.

    The last batch may be cut. `first_entry_incomplete` says that even the first is, for it is larger than was allowed.
    `aborted_transactions` is None unless the read was for committed records only.
    """

    records: bytes
    first_entry_incomplete: bool
    aborted_transactions: list[AbortedTxn] | None
