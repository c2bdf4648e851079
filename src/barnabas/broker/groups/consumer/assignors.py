"""The server-side assignors by name, as `group.consumer.assignors` and the members give them (KIP-848)."""

from __future__ import annotations

from barnabas.broker.groups.consumer.assignor import Assignor
from barnabas.broker.groups.consumer.range_assignor import assign_ranges
from barnabas.broker.groups.consumer.uniform_assignor import assign_uniformly

ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniformly, "range": assign_ranges}
