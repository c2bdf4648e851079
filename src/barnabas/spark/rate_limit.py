"""How many records of each partition a micro-batch takes when `maxOffsetsPerTrigger` bounds it."""

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
