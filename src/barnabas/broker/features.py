"""Features: what a cluster can do beyond the versions of its APIs, at which level (KIP-584, KIP-1022).

Clients go by the finalized levels in ApiVersions: the consumer protocol of KIP-848 needs `group.version` 1, a producer
uses the transactions of KIP-890 from `transaction.version` 2 on. Who builds a feature adds its row here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from barnabas import errors
from barnabas.broker.metadata.metadata_version import METADATA_VERSION
from barnabas.protocol.kinds import UpgradeType

if TYPE_CHECKING:
    from barnabas.broker.metadata.cluster_metadata import ClusterMetadata

GROUP_VERSION = "group.version"
SHARE_VERSION = "share.version"
STREAMS_VERSION = "streams.version"
TRANSACTION_VERSION = "transaction.version"
ELIGIBLE_LEADER_REPLICAS_VERSION = "eligible.leader.replicas.version"


class Feature(NamedTuple):
    """The levels that this broker can be at, and the one that a new cluster is at (0: not finalized)."""

    lowest: int
    highest: int
    default: int


#: Apache Kafka 4.3 is at metadata.version 30 (4.3-IV0).
FEATURES: dict[str, Feature] = {
    METADATA_VERSION: Feature(7, 30, 30),
    GROUP_VERSION: Feature(0, 1, 1),
    TRANSACTION_VERSION: Feature(0, 2, 2),
    SHARE_VERSION: Feature(0, 1, 1),
    STREAMS_VERSION: Feature(0, 1, 1),
    ELIGIBLE_LEADER_REPLICAS_VERSION: Feature(0, 1, 1),
}

#: What a feature switches off at level 0.
_GROUPS = {
    GROUP_VERSION: "The consumer protocol is",
    SHARE_VERSION: "Share groups are",
    STREAMS_VERSION: "Streams groups are",
}
#: Feature above level 0 → the other one that it depends on, and from which level of that.
_DEPENDENCIES = {ELIGIBLE_LEADER_REPLICAS_VERSION: (METADATA_VERSION, 23)}


def unmet_dependency(name: str, level: int, levels: Mapping[str, int]) -> str | None:
    """Return why a feature cannot be at a level beside those of the others; None where it can."""
    if level < 1 or name not in _DEPENDENCIES:
        return None
    other, least = _DEPENDENCIES[name]
    if levels.get(other, 0) >= least:
        return None
    return f"{name} could not be set to {level} because it depends on {other} level {least}"


class FeatureUpdate(NamedTuple):
    """A level that a feature shall be finalized at, and in which direction (an `UpgradeType`)."""

    name: str
    level: int
    kind: int


def finalized(metadata: ClusterMetadata) -> dict[str, int]:
    """Every feature's finalized level; 0 where it is not in use."""
    stored = metadata.features
    return {name: stored.get(name, feature.default) for name, feature in FEATURES.items()}


def level_of(metadata: ClusterMetadata, name: str) -> int:
    """Return a feature's finalized level; 0 where it is not in use."""
    return metadata.features.get(name, FEATURES[name].default)


def has_eligible_leader_replicas(metadata: ClusterMetadata) -> bool:
    """Whether the cluster is at the level of eligible leader replicas (KIP-966)."""
    return level_of(metadata, ELIGIBLE_LEADER_REPLICAS_VERSION) > 0


def check_groups(metadata: ClusterMetadata, name: str) -> None:
    """Raise UnsupportedVersionError while the feature that a kind of group needs is at level 0."""
    if level_of(metadata, name) < 1:
        raise errors.UnsupportedVersionError(f"{_GROUPS[name]} switched off: {name} is at 0.")


def updated(current: Mapping[str, int], updates: Iterable[FeatureUpdate]) -> dict[str, int]:
    """Return the levels after the updates. Raises InvalidUpdateVersionError for the first one that cannot be."""
    levels = dict(current)
    for update in updates:
        _check(levels, update)
        levels[update.name] = update.level
    return levels


def _check(levels: Mapping[str, int], update: FeatureUpdate) -> None:
    name, level, kind = update
    problem = _problem(levels, update)
    if problem:
        raise errors.InvalidUpdateVersionError(f"Invalid update version {level} for feature {name}. {problem}")
    if name == METADATA_VERSION and level != levels[name]:
        direction = "Unsafe" if kind == UpgradeType.UNSAFE_DOWNGRADE else "Safe"
        raise errors.InvalidUpdateVersionError(
            f"{direction} metadata.version downgrade from {levels[name]} to {level} is not supported."
        )


def _problem(levels: Mapping[str, int], update: FeatureUpdate) -> str | None:
    name, level, kind = update
    feature = FEATURES.get(name)
    if kind not in tuple(UpgradeType):
        return "The controller does not support the given upgrade type."
    if level < 0:
        return "A feature version cannot be less than 0."
    if feature is None:
        return "This broker does not support this feature."
    if not feature.lowest <= level <= feature.highest:
        return f"This broker only supports versions {feature.lowest}-{feature.highest}."
    if level < levels[name] and kind == UpgradeType.UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade."
        )
    if level > levels[name] and kind != UpgradeType.UPGRADE:
        return "Can't downgrade to a newer version."
    return None
