"""With what the metadata log of a new cluster begins (BootstrapMetadata, ActivationRecordsGenerator; KIP-778, 868)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.controller.config_schema import MIN_IN_SYNC_REPLICAS
from barnabas.broker.controller.controller_result import ControllerResult
from barnabas.broker.features import ELIGIBLE_LEADER_REPLICAS_VERSION
from barnabas.broker.metadata.metadata_records import ApiMessageAndVersion
from barnabas.broker.metadata.metadata_version import KRAFT_VERSION, METADATA_VERSION, MetadataVersion
from barnabas.errors import IllegalStateError
from barnabas.protocol.kinds import ConfigResourceType
from barnabas.protocol.messages.abort_transaction_record import AbortTransactionRecord
from barnabas.protocol.messages.begin_transaction_record import BeginTransactionRecord
from barnabas.protocol.messages.config_record import ConfigRecord
from barnabas.protocol.messages.end_transaction_record import EndTransactionRecord
from barnabas.protocol.messages.feature_level_record import FeatureLevelRecord

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from barnabas.broker.controller.controller_state import Replayed

_FAILOVER = "Controller failover"
_BOOTSTRAP = "Bootstrap records"


class BootstrapMetadata(NamedTuple):
    """Records that a formatted directory, or the settings, give a new cluster."""

    records: Sequence[ApiMessageAndVersion]

    @classmethod
    def of_levels(cls, levels: Mapping[str, int]) -> BootstrapMetadata:
        """Return the records of features' levels: metadata.version first, kraft.version is not among them."""
        names = sorted(name for name in levels if name not in (METADATA_VERSION, KRAFT_VERSION) and levels[name] > 0)
        return cls(
            [
                ApiMessageAndVersion(FeatureLevelRecord(name=name, feature_level=levels[name]))
                for name in (METADATA_VERSION, *names)
            ]
        )

    def level(self, feature: str) -> int:
        """Return the level of a feature; 0 where no record names it."""
        found = 0
        for record, _ in self.records:
            if isinstance(record, FeatureLevelRecord) and record.name == feature:
                found = record.feature_level
        return found

    @property
    def metadata_version(self) -> MetadataVersion:
        """The level of metadata.version. Raises `IllegalStateError` without one."""
        level = self.level(METADATA_VERSION)
        if not level:
            raise IllegalStateError("the bootstrap metadata have no record of metadata.version: format the directory")
        return MetadataVersion(level)


def activation_records(
    state: Replayed, bootstrap: BootstrapMetadata, min_insync_replicas: int
) -> ControllerResult[None]:
    """Return what a controller writes when it becomes active.

    In an empty log that is the bootstrap metadata, as one transaction; elsewhere nothing, unless the last controller
    has left a transaction, which is aborted.
    """
    is_open = state.before_transaction is not None
    aborted = [ApiMessageAndVersion(AbortTransactionRecord(reason=_FAILOVER))] if is_open else []
    if METADATA_VERSION in state.stable.image.features:
        return ControllerResult(aborted, None, True)
    records = [*aborted]
    has_transactions = bootstrap.metadata_version.is_metadata_transaction_supported
    if has_transactions:
        records.append(ApiMessageAndVersion(BeginTransactionRecord(name=_BOOTSTRAP)))
    records += bootstrap.records
    if bootstrap.level(ELIGIBLE_LEADER_REPLICAS_VERSION) > 0:
        # ELR needs one minimum that all brokers have.
        config = ConfigRecord(
            resource_type=ConfigResourceType.BROKER.value,
            resource_name="",
            name=MIN_IN_SYNC_REPLICAS,
            value=str(min_insync_replicas),
        )
        records.append(ApiMessageAndVersion(config))
    if has_transactions:
        records.append(ApiMessageAndVersion(EndTransactionRecord()))
    return ControllerResult(records, None, not has_transactions)
