"""What a read answers (FetchDataInfo), and how far it may look (FetchIsolation)."""

from __future__ import annotations

from typing import NamedTuple

from barnabas.broker.log.filesystem import FileRegion
from barnabas.broker.log.transaction_index import AbortedTxn


class FetchDataInfo(NamedTuple):
    """Whole batches of the log, from the one on that holds the offset asked for; none if that is larger than allowed.

    `available` is how many bytes there were within the limits, those of a cut batch behind whole ones included: by them
    a Fetch tells whether it has enough. `aborted_transactions` is None unless the read was for committed records only.
    A `FileRegion` comes only to who has asked for bytes to be sent.
    """

    records: bytes | FileRegion
    available: int
    aborted_transactions: list[AbortedTxn] | None
