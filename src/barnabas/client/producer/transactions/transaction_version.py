"""Which version of transactions the cluster speaks, and who raises the producer's epoch in it (KIP-360, KIP-890)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.protocol.api import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.network.node_api_versions import NodeApiVersions

_FIRST_INIT_PRODUCER_ID_THAT_BUMPS = 3


class TransactionVersion:
    """The cluster's `transaction.version`, as the coordinator last told it.

    `coordinator_versions()` gives what the coordinator supports, None while it is not known. In version 2 the broker
    gives a new epoch after every transaction; before, the client asks for one where it needs it
    (`client_side_epoch_bump`).
    """

    __slots__ = ("_coordinator_versions", "_features_epoch", "client_side_epoch_bump", "is_v2")

    def __init__(self, coordinator_versions: Callable[[], NodeApiVersions | None]) -> None:
        self.is_v2 = False
        self.client_side_epoch_bump = False
        self._coordinator_versions = coordinator_versions
        self._features_epoch = -1

    def update(self, initial: bool) -> None:
        """Take over the cluster's version, `initial` when the producer has just got its epoch."""
        versions = self._coordinator_versions()
        if versions is None or versions.finalized_features_epoch < self._features_epoch:
            return
        self._features_epoch = versions.finalized_features_epoch
        was_v2, self.is_v2 = self.is_v2, versions.finalized_features.get("transaction.version", 0) >= 2
        if self.is_v2 and not was_v2 and not initial:
            # This transaction ends in the old way, so only the client can raise the epoch before the next.
            self.client_side_epoch_bump = True

    @property
    def _can_bump_epoch(self) -> bool:
        versions = self._coordinator_versions()
        supported = None if versions is None else versions.supported(ApiKey.INIT_PRODUCER_ID)
        return supported is not None and supported[1] >= _FIRST_INIT_PRODUCER_ID_THAT_BUMPS

    @property
    def can_handle_abortable_error(self) -> bool:
        """Whether a new epoch can be had after an abort, so that lost sequence numbers do no harm."""
        return self.is_v2 or self._can_bump_epoch

    def require_epoch_bump(self) -> None:
        """Have the epoch raised before the next transaction."""
        # In transaction version 2 the broker gives a new epoch after the abort by itself.
        if not self.is_v2 and self._can_bump_epoch:
            self.client_side_epoch_bump = True
