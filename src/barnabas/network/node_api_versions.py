"""What one broker understands, and how that is found out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from barnabas.errors import UnsupportedVersionError
from barnabas.protocol.api import ApiKey

if TYPE_CHECKING:
    from barnabas.protocol.messages.api_versions_response import ApiVersionsResponse


class NodeApiVersions:
    """The versions of each API that a broker supports, and the features that its cluster has switched on."""

    __slots__ = ("_ranges", "finalized_features", "finalized_features_epoch")

    def __init__(
        self,
        ranges: Iterable[tuple[int, int, int]],
        finalized_features: Mapping[str, int] | None = None,
        finalized_features_epoch: int = -1,
    ) -> None:
        self._ranges = {key: (low, high) for key, low, high in ranges}
        self.finalized_features: dict[str, int] = dict(finalized_features or {})
        self.finalized_features_epoch = finalized_features_epoch

    @classmethod
    def from_response(cls, response: ApiVersionsResponse) -> NodeApiVersions:
        """Return what an ApiVersionsResponse says."""
        return cls(
            ((api.api_key, api.min_version, api.max_version) for api in response.api_keys),
            {feature.name: feature.max_version_level for feature in response.finalized_features},
            response.finalized_features_epoch,
        )

    def supported(self, api_key: int) -> tuple[int, int] | None:
        """Lowest and highest version of an API; None when the broker does not have it."""
        return self._ranges.get(api_key)

    def latest_usable_version(self, api_key: int, low: int, high: int) -> int:
        """Return the highest version within `low` to `high` that the broker supports.

        Raises `UnsupportedVersionError` when there is none.

        """
        supported = self._ranges.get(api_key)
        if supported is None:
            raise UnsupportedVersionError(f"the broker does not support {_name(api_key)} at all")
        version = min(high, supported[1])
        if version < max(low, supported[0]):
            raise UnsupportedVersionError(
                f"the broker supports {_name(api_key)} in versions {supported[0]} to {supported[1]}, "
                f"this request needs one of {low} to {high}"
            )
        return version

    def __repr__(self) -> str:
        ranges = ", ".join(f"{_name(key)}: {low}-{high}" for key, (low, high) in sorted(self._ranges.items()))
        return f"NodeApiVersions({ranges})"


def _name(api_key: int) -> str:
    try:
        return ApiKey(api_key).name
    except ValueError:
        return f"API {api_key}"


def next_version_to_try(tried: int, response: ApiVersionsResponse) -> int | None:
    """After an ApiVersions response with an error: the version to ask again in, None when that makes no sense."""
    if response.error_code != UnsupportedVersionError.code or tried == 0:
        return None
    best = next((api.max_version for api in response.api_keys if api.api_key == ApiKey.API_VERSIONS), 0)
    return min(max(best, 0), tried - 1)
