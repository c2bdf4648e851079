"""The metadata of an admin client: brokers and the controller, no topics."""

from __future__ import annotations

from collections.abc import Collection

from barnabas.client.metadata import Metadata


class AdminMetadata(Metadata):
    """Asks for no topics, so that it stays small however large the cluster is."""

    def topics_of_interest(self, *, only_new: bool) -> Collection[str]:
        """See `Metadata`."""
        return ()

    @property
    def allow_auto_topic_creation(self) -> bool:
        """See `Metadata`."""
        return False
