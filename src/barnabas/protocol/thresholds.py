"""Versions from which on a message says something else, where more than one place has to know.

What one handler alone does differently in some version stands in that handler.
"""

from __future__ import annotations

from typing import Final

PRODUCE_TOPIC_IDS_FROM: Final = 13
"""Topics are named by id (KIP-516)."""
FETCH_TOPIC_IDS_FROM: Final = 13
OFFSET_COMMIT_TOPIC_IDS_FROM: Final = 10
OFFSET_FETCH_TOPIC_IDS_FROM: Final = 10
OFFSET_FETCH_GROUPS_FROM: Final = 8
"""One request asks for several groups (KIP-709)."""
METADATA_BY_ID_FROM: Final = 12
"""Topics can be asked for by id. The fields are there from version 10 on, but brokers refuse them until this one."""
DELETE_TOPICS_BY_ID_FROM: Final = 6
FIND_COORDINATOR_KEYS_FROM: Final = 4
"""One request asks for several coordinators (KIP-699)."""
LEAVE_GROUP_MEMBERS_FROM: Final = 3
"""One request removes several members (KIP-345)."""
JOIN_GROUP_MEMBER_ID_REQUIRED_FROM: Final = 4
"""A new member is first given an id, and joins with it (KIP-394)."""
ADD_PARTITIONS_TO_TXN_BATCHED_FROM: Final = 4
"""One request of a broker asks for several transactions (KIP-890)."""
UPDATE_FEATURES_UPGRADE_TYPE_FROM: Final = 1
LIST_CONFIG_RESOURCES_TYPES_FROM: Final = 1
"""Other kinds than client metrics can be listed (KIP-1142)."""
