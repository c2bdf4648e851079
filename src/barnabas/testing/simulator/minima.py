"""How much must happen in a hundred seeds; a run in which nothing happens proves nothing."""

from __future__ import annotations

from collections import Counter

#: From so many seeds on the numbers are held against the minima.
ENOUGH_SEEDS = 15
#: A minimum is held from as many seeds on as make it this large: of what is rarer chance decides whether it happens.
FEWEST = 5

PER_HUNDRED_SEEDS = {
    "admin: create topic": 30,
    "admin: fence": 15,
    "admin: look at groups": 20,
    "assignments": 300,
    "clean stops": 15,
    "clients cut off": 30,
    "clients killed": 15,
    "clock jumps": 10,
    "commits": 2000,
    "committed offsets looked up": 2000,
    "connections cut": 60,
    "connections half open": 20,
    "crashes in the middle of a change of the disk": 8,
    "crashes": 30,
    "clients gone for good": 15,
    "ends with answers on their way": 10,
    "failed changes of the metadata": 10,
    "failed operations of the disk: append": 30,
    "failed operations of the disk: checkpoint": 5,
    "failed operations of the disk: index": 3,
    "failed operations of the disk: read": 3,
    "failed operations of the disk: rename": 1,
    "failed operations of the disk: sync": 8,
    "flushes in the background": 50,
    "flushes that a crash fell into": 3,
    "members that hang": 15,
    "files torn by a power loss": 100,
    "lives in an event loop": 100,
    "long transformations": 50,
    "lost packets": 30,
    "offsets in a transaction: CommitFailedError": 10,
    "partitions lost": 10,
    "power losses": 15,
    "processes frozen": 30,
    "records acknowledged": 20_000,
    "records failed": 500,
    "records read by groups": 15_000,
    "records that a queue delivered": 1000,
    "records that a queue delivered again": 50,
    "slow operations of the disk": 1000,
    "streams groups described": 100,
    "streams tasks given": 100,
    "times of a bad log": 10,
    "times of a bad network": 15,
    "times of a full disk": 10,
    "transaction: ProducerFencedError": 5,
    "transactions aborted": 300,
    "transactions committed": 1200,
    "zombies": 20,
}


def too_little(counts: Counter[str], seeds: int) -> list[str]:
    """Return what happened less often than it must in so many seeds."""
    if seeds < ENOUGH_SEEDS:
        return []
    wanted = {what: least * seeds // 100 for what, least in PER_HUNDRED_SEEDS.items()}
    return [
        f"{what}: {counts[what]}, at least {least} are wanted"
        for what, least in wanted.items()
        if counts[what] < least >= FEWEST
    ]
