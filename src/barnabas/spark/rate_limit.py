"""How much a micro-batch takes and when: `maxOffsetsPerTrigger`, `minOffsetsPerTrigger`, `maxTriggerDelay`."""

from __future__ import annotations

import math

from barnabas.spark.offsets import Offsets


def limited(start: Offsets, latest: Offsets, limit: int) -> Offsets:
    """Share `limit` records among the partitions in proportion to what each has waiting.

    As in the built-in connector: every partition that has records and whose share is below one takes one, so that
    a small partition beside a large one is never starved (the sum may then pass the limit by the number of such
    partitions). `start` must name every partition of `latest`.
    """
    waiting = {partition: max(0, end - start[partition]) for partition, end in latest.items()}
    total = sum(waiting.values())
    if total <= limit:
        return dict(latest)
    taken: Offsets = {}
    for partition, end in latest.items():
        share = limit * (waiting[partition] / total)
        step = math.ceil(share) if share < 1 else math.floor(share)
        taken[partition] = end if waiting[partition] == 0 else min(end, start[partition] + step)
    return taken


class TriggerDelay:
    """Holds a micro-batch back until enough records wait for it, or until it has waited long enough."""

    def __init__(self) -> None:
        """Begin with a micro-batch that is not held back."""
        self._last_trigger_ms: int | None = None

    def holds_back(self, waiting: int, least: int, longest_ms: int, now_ms: int) -> bool:
        """Whether `waiting` records are too few at `now_ms`; when not, waiting begins anew."""
        last = self._last_trigger_ms
        if last is not None and waiting < least and now_ms - last < longest_ms:
            return True
        self._last_trigger_ms = now_ms
        return False
