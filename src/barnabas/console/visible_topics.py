"""What the console knows by itself, such as a checkpoint, is shown as far as the cluster tells of its topics."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from barnabas.errors import TopicAuthorizationError

if TYPE_CHECKING:
    from barnabas.aio import AdminClient


async def refused_topics(admin: AdminClient, topics: Collection[str]) -> set[str]:
    """Return those of the topics of which the cluster tells this principal nothing; one that is gone is none."""
    if not topics:
        return set()
    described = await admin.describe_topics(topics, raise_errors=False)
    return {str(name) for name, error in described.errors.items() if isinstance(error, TopicAuthorizationError)}


async def check_topics(admin: AdminClient, topics: Collection[str], what: str) -> None:
    """Raise `TopicAuthorizationError` where the cluster tells this principal nothing of some of the topics."""
    if await refused_topics(admin, topics):
        raise TopicAuthorizationError(f"{what} has topics that you may not describe")
