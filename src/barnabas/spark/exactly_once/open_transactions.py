"""What a driver asks of the transaction coordinators: which transactions are open, and to end some of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from barnabas.client.admin.admin_api_handler import Outcome
from barnabas.client.admin.lookups import CoordinatorStrategy
from barnabas.client.admin.requests import one_key_each
from barnabas.errors import TransactionalIdNotFoundError, UnsupportedVersionError
from barnabas.network.client_request import RequestBuilder
from barnabas.protocol.api import ApiKey
from barnabas.protocol.kinds import CoordinatorType
from barnabas.protocol.messages.end_txn_request import EndTxnRequest

if TYPE_CHECKING:
    from barnabas.client.admin.admin_client import AdminClient
    from barnabas.protocol.messages.end_txn_response import EndTxnResponse

ONGOING = "Ongoing"

_CONCURRENT_TRANSACTIONS = (51,)

#: What a coordinator answers when it did not, and never will, end this transaction as it was asked to.
_DID_NOT = frozenset({
    47,  # INVALID_PRODUCER_EPOCH
    48,  # INVALID_TXN_STATE: it timed out, for instance
    49,  # INVALID_PRODUCER_ID_MAPPING
    90,  # PRODUCER_FENCED
    105,  # TRANSACTIONAL_ID_NOT_FOUND
})  # fmt: skip


class _EndHandler:
    """EndTxn at the coordinators, one transaction a request: whether it was ended as asked.

    The cluster has transaction version 2, so no answer can concern the next transaction of the same id (KIP-890).
    """

    name = "end transactions"

    def __init__(self, identities: Mapping[str, tuple[int, int]], commit: bool) -> None:
        self.lookup = CoordinatorStrategy(CoordinatorType.TRANSACTION)
        self._identities = identities
        self._commit = commit

    def build_request(self, keys: list[str], timeout_ms: int) -> RequestBuilder:
        """See `AdminApiHandler`."""

        def request(key: str) -> EndTxnRequest:
            producer_id, epoch = self._identities[key]
            return EndTxnRequest(
                transactional_id=key, producer_id=producer_id, producer_epoch=epoch, committed=self._commit
            )

        return one_key_each(ApiKey.END_TXN, "EndTxn", request, keys)

    def handle_response(self, keys: list[str], response: EndTxnResponse, outcome: Outcome[str, bool]) -> None:
        """See `AdminApiHandler`."""
        (key,) = keys
        if response.error_code in _DID_NOT:
            outcome.complete(key, False)
        elif outcome.is_success(key, response.error_code, also_passing=_CONCURRENT_TRANSACTIONS):
            outcome.complete(key, True)


def list_open(admin: AdminClient, prefix: str) -> dict[str, int]:
    """Return the open transactions whose ids begin with `prefix`, with their producer ids, from all brokers."""
    try:
        found = admin.list_transactions(states=[ONGOING], transactional_id_pattern=f"{re.escape(prefix)}.*")
    except UnsupportedVersionError:
        # Brokers before 4.1 (KIP-1152) take no pattern, and tell of all.
        found = admin.list_transactions(states=[ONGOING])
    return {name: listing.producer_id for name, listing in found.items() if name.startswith(prefix)}


def describe(admin: AdminClient, transactional_ids: tuple[str, ...]) -> dict[str, tuple[int, int]]:
    """Return producer id and epoch of those that are open."""
    found = admin.describe_transactions(transactional_ids, raise_errors=False)
    for error in found.errors.values():
        if not isinstance(error, TransactionalIdNotFoundError):
            raise error
    return {name: (each.producer_id, each.producer_epoch) for name, each in found.items() if each.state == ONGOING}


def end_all(admin: AdminClient, transactions: tuple[tuple[str, int, int], ...], commit: bool) -> set[str]:
    """Commit or abort each; the ids of those for which the cluster says that it did not.

    Raises what kept it from knowing, after default.api.timeout.ms.
    """
    identities = {name: (producer_id, epoch) for name, producer_id, epoch in transactions}
    done = admin._run(_EndHandler(identities, commit), identities, None, True)
    return {name for name, was_done in done.items() if not was_done}
