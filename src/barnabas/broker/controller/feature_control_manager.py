"""Levels of features (FeatureControlManager; KIP-584, KIP-778, KIP-1022)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from barnabas import errors
from barnabas.broker.controller.controller_result import ControllerResult, Records
from barnabas.broker.features import ELIGIBLE_LEADER_REPLICAS_VERSION, FEATURES, FeatureUpdate, unmet_dependency
from barnabas.broker.metadata.metadata_records import ApiMessageAndVersion
from barnabas.broker.metadata.metadata_version import KRAFT_VERSION, METADATA_VERSION, NAMES, MetadataVersion
from barnabas.protocol.kinds import UpgradeType
from barnabas.protocol.messages.feature_level_record import FeatureLevelRecord
from barnabas.protocol.messages.no_op_record import NoOpRecord

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from barnabas.broker.controller.configuration_control_manager import ConfigurationControlManager
    from barnabas.broker.controller.controller_state import ControllerState

#: What this controller can write down.
CONTROLLER_FEATURES: dict[str, tuple[int, int]] = {
    **{name: (feature.lowest, feature.highest) for name, feature in FEATURES.items()},
    KRAFT_VERSION: (0, 1),
}


class Quorum(NamedTuple):
    """This controller, and the ids of all voters as far as they are known."""

    node_id: int
    voters: Sequence[int] = ()


class UpgradeKRaftVersion(Protocol):
    """Has the quorum write the records of a `kraft.version` (`RaftClient.upgrade_kraft_version`)."""

    def __call__(self, level: int, *, validate_only: bool) -> None:
        """Have the level written. Raises `InvalidUpdateVersionError` for one that cannot be."""


class KRaftVersion(NamedTuple):
    """The level that the quorum itself keeps, and what asks it for another."""

    level: int
    upgrade: UpgradeKRaftVersion


class FeatureControlManager:
    """Plans other levels: all of a request or none."""

    def __init__(self, state: ControllerState, quorum: Quorum, configs: ConfigurationControlManager) -> None:
        self._state = state
        self._quorum = quorum
        self._configs = configs

    @property
    def finalized(self) -> Mapping[str, int]:
        """Return the levels in force."""
        return self._state.image.features

    def update_features(
        self, updates: Collection[FeatureUpdate], kraft_version: KRaftVersion, *, validate_only: bool
    ) -> ControllerResult[None]:
        """Finalize levels; the quorum writes its own, ahead of the records that are returned.

        Raises `InvalidUpdateVersionError` for the first level that cannot be.
        """
        proposed = {**self.finalized, **{update.name: update.level for update in updates}}
        records: Records = []
        for update in updates:
            current = kraft_version.level if update.name == KRAFT_VERSION else self.finalized.get(update.name, 0)
            problem = self._problem(update, current) or unmet_dependency(update.name, update.level, proposed)
            if problem is not None:
                raise _refused(update, problem)
            if update.name == KRAFT_VERSION:
                if update.kind == UpgradeType.UPGRADE:
                    kraft_version.upgrade(update.level, validate_only=True)
                    # So that there is an offset to wait for.
                    records.append(ApiMessageAndVersion(NoOpRecord()))
            else:
                if update.name == METADATA_VERSION:
                    self._check_metadata_version(update, current)
                record = FeatureLevelRecord(name=update.name, feature_level=update.level)
                records.append(ApiMessageAndVersion(record))
        if validate_only:
            return ControllerResult((), None, True)
        if any(update.name == ELIGIBLE_LEADER_REPLICAS_VERSION and update.level > 0 for update in updates):
            records = [*self._configs.elr_safety_records(), *records]
        for update in updates:
            if update.name == KRAFT_VERSION and update.kind == UpgradeType.UPGRADE:
                kraft_version.upgrade(update.level, validate_only=False)
        return ControllerResult(records, None, True)

    def _problem(self, update: FeatureUpdate, current: int) -> str | None:
        name, level, kind = update
        if kind not in tuple(UpgradeType):
            return "The controller does not support the given upgrade type."
        if level < 0:
            return "A feature version cannot be less than 0."
        unsupported = next(self._unsupported(name, level), None)
        if unsupported is not None:
            return unsupported
        if level < current and kind == UpgradeType.UPGRADE:
            return (
                "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
                "downgrade."
            )
        if level > current and kind != UpgradeType.UPGRADE:
            return "Can't downgrade to a newer version."
        if name == KRAFT_VERSION and level < current:
            return "Can't downgrade the version of this feature."
        return None

    def _unsupported(self, name: str, level: int) -> Iterator[str]:
        """Give who in the cluster does not have this level."""
        image, me = self._state.image, self._quorum.node_id
        nodes = [(f"Local controller {me}", CONTROLLER_FEATURES)]
        nodes += [(f"Broker {broker.id}", dict(broker.features)) for broker in image.brokers.values()]
        nodes += [(f"Controller {id}", dict(found.features)) for id, found in image.controllers.items() if id != me]
        for who, features in nodes:
            low, high = features.get(name, (0, 0))
            if not low <= level <= high:
                yield f"{who} only supports versions {low}-{high}" if high else f"{who} does not support this feature."
        if self._state.metadata_version.is_controller_registration_supported:
            for id in self._quorum.voters:
                if id != me and id not in image.controllers:
                    yield f"controller {id} has not registered, and may not support this feature"

    def _check_metadata_version(self, update: FeatureUpdate, current: int) -> None:
        if update.level not in NAMES:
            raise errors.InvalidUpdateVersionError(
                f"Invalid metadata.version {update.level}. Valid versions are from {min(NAMES)} to {max(NAMES)}."
            )
        old, new = MetadataVersion(current), MetadataVersion(update.level)
        if new.level < old.level and new.has_changed_records(old):
            reason = (
                "Unsafe metadata downgrade is not supported in this version."
                if update.kind == UpgradeType.UNSAFE_DOWNGRADE
                else "Refusing to perform the requested downgrade because it might delete metadata information."
            )
            raise errors.InvalidUpdateVersionError(
                f"Unsupported metadata.version downgrade from {old.level} to {new.level}. {reason}"
            )


def _refused(update: FeatureUpdate, problem: str) -> errors.InvalidUpdateVersionError:
    return errors.InvalidUpdateVersionError(
        f"Invalid update version {update.level} for feature {update.name}. {problem}"
    )
