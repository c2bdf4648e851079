"""Epochs that mean something other than a count: of leaders, fetch sessions (KIP-227), members of groups (KIP-848)."""

from __future__ import annotations

from typing import Final

NO_SESSION: Final = 0
"""The id of no fetch session: this fetch stands for itself."""
INITIAL_EPOCH: Final = 0
"""A full fetch that asks for a new session."""
FINAL_EPOCH: Final = -1
"""A full fetch without a session; a session that the request names ends."""

INITIAL_LEADER_EPOCH: Final = 0
"""The epoch of the first leader of a partition."""

JOIN_EPOCH: Final = 0
"""A heartbeat by which a member joins."""
LEAVE_EPOCH: Final = -1
"""A heartbeat by which a member leaves."""
LEAVE_STATIC_EPOCH: Final = -2
"""A heartbeat by which a static member leaves for a while: its assignment is kept."""
