"""Share consumers that vanish, stall, release and reject, on a broker that is killed now and then; and who checks it.

Every step is drawn from a seed. The oracle: a record that was accepted or rejected, and confirmed, never comes again;
no record is in two hands at one time; a delivery count grows by one with each delivery, or begins again where a killed
broker knew of it alone; and in the end every record was accepted, rejected, or delivered as often as the limit says.
"""

from __future__ import annotations

import random
from typing import Any

from tests.support.core_broker import CoreBroker, batch, create, produce
from tests.support.share_member import ShareMember
from tests.unit.broker.share.configs import set_group

LIMIT, LOCK, MEMBERS = 4, 15.0, 3
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4


class Violation(AssertionError):  # noqa: N818 - what an oracle finds
    """What must not be."""


class Holder:
    """One member with its connection; `held` has the offsets that it may acknowledge, and until when."""

    def __init__(self, broker: CoreBroker, name: str) -> None:
        self.member = ShareMember(broker, name)
        self.held: dict[int, float] = {}
        self.joined = False


class ShareWorld:
    """One topic partition, one group, some members, and what became of each record."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.broker = CoreBroker(
            {
                "group.share.min.record.lock.duration.ms": 1000,
                "share.coordinator.snapshot.update.records.per.snapshot": self.random.choice([0, 3, 500]),
            },
            seed=seed,
        )
        self.broker.connect().request(create("t", 1), 7)
        for name, value in (
            ("share.auto.offset.reset", "earliest"),
            ("share.delivery.count.limit", str(LIMIT)),
            ("share.record.lock.duration.ms", str(int(LOCK * 1000))),
        ):
            set_group(self.broker, name, value)
        self.end = 0
        #: Offset → ACCEPT or REJECT, as it was confirmed.
        self.ended: dict[int, int] = {}
        #: Offset → the last delivery count that a member was told; after a crash it may be told again.
        self.counts: dict[int, int] = {}
        self.crashes = 0
        self.generation = 0
        self.holders: list[Holder] = []
        self.fill()

    def fill(self) -> None:
        while len(self.holders) < MEMBERS:
            self.generation += 1
            self.holders.append(Holder(self.broker, f"m{self.generation}"))

    def run(self, steps: int) -> None:
        choices = [
            (self.produce, 3), (self.fetch, 8), (self.acknowledge, 8), (self.vanish, 1), (self.stall, 1),
            (self.leave, 1), (self.kill, 0.4), (self.wait, 3), (self.renew, 1),
        ]  # fmt: skip
        steps_of, weights = zip(*choices, strict=True)
        for _ in range(steps):
            self.random.choices(steps_of, weights)[0]()
        self.drain()

    # --- steps

    def produce(self) -> None:
        count = self.random.randint(1, 6)
        self.broker.connect().request(produce("t", batch(*[b"x"] * count)), 12)
        self.end += count

    def pick(self) -> Holder:
        holder = self.random.choice(self.holders)
        if not holder.joined:
            joined = holder.member.heartbeat().error_code == 0
            self.tell(joined, "a member could not join")
            holder.joined = True
        return holder

    def fetch(self) -> None:
        holder = self.pick()
        strict = self.random.random() < 0.3
        response = holder.member.send_fetch(
            max_records=self.random.randint(1, 8), batch_size=self.random.randint(1, 4), share_acquire_mode=int(strict)
        )
        self.took(holder, response)

    def took(self, holder: Holder, response: Any) -> None:
        self.tell(response is not None and not response.error_code, f"a fetch was refused: {response}")
        for topic in response.responses:
            for part in topic.partitions:
                for run in part.acquired_records:
                    for offset in range(run.first_offset, run.last_offset + 1):
                        self.delivered(holder, offset, run.delivery_count)

    def delivered(self, holder: Holder, offset: int, count: int) -> None:
        self.tell(offset < self.end, f"{offset} was never produced")
        self.tell(offset not in self.ended, f"{offset} comes again, and was told to be {self.ended.get(offset)}")
        for other in self.holders:
            deadline = other.held.get(offset, 0.0)
            self.tell(deadline <= self.broker.now, f"{offset} is in the hands of {other.member.member_id} still")
            other.held.pop(offset, None)
        before = self.counts.get(offset, 0)
        if self.crashes:
            self.tell(1 <= count <= before + 1, f"{offset} has count {count} after {before}")
        else:
            self.tell(count == before + 1, f"{offset} has count {count} after {before}")
        self.tell(count <= LIMIT, f"{offset} was delivered {count} times")
        self.counts[offset] = count
        holder.held[offset] = self.broker.now + LOCK

    def acknowledge(self) -> None:
        holder = self.pick()
        live = sorted(offset for offset, deadline in holder.held.items() if deadline > self.broker.now)
        if not live:
            return
        first = self.random.choice(live)
        last = first
        while last + 1 in live and self.random.random() < 0.7:
            last += 1
        types = [self.random.choice([ACCEPT, ACCEPT, RELEASE, REJECT]) for _ in range(first, last + 1)]
        response = holder.member.acknowledge((first, last, types))
        code = response.error_code or response.responses[0].partitions[0].error_code
        self.tell(code == 0, f"{first} to {last} could not be acknowledged: {code}")
        for offset, kind in zip(range(first, last + 1), types, strict=True):
            del holder.held[offset]
            if kind != RELEASE:
                self.ended[offset] = kind

    def renew(self) -> None:
        holder = self.pick()
        live = [offset for offset, deadline in holder.held.items() if deadline > self.broker.now]
        if live:
            offset = self.random.choice(live)
            response = holder.member.acknowledge((offset, offset, [RENEW]), is_renew_ack=True)
            self.tell(not response.responses[0].partitions[0].error_code, f"{offset} could not be renewed")
            ended, holder.held[offset] = holder.held[offset], self.broker.now + LOCK
            if self.random.random() < 0.5:
                # The lock from before would have ended by now.
                self.broker.advance(ended - self.broker.now + 0.01)
                self.fetch()

    def wait(self) -> None:
        self.broker.advance(self.random.uniform(0, 3))
        for holder in self.holders:
            if holder.joined and holder.member.heartbeat().error_code:
                holder.member.member_epoch, holder.joined = 0, False

    def stall(self) -> None:
        """All locks end: their members have gone to sleep."""
        self.broker.advance(LOCK + 0.1)
        self.wait()

    def vanish(self) -> None:
        holder = self.holders.pop(self.random.randrange(len(self.holders)))
        holder.member.client.lose()
        self.fill()

    def leave(self) -> None:
        holder = self.holders.pop(self.random.randrange(len(self.holders)))
        if holder.member.session_epoch:
            holder.member.acknowledge(epoch=-1)
        self.fill()

    def kill(self) -> None:
        self.broker = self.broker.crashed()
        self.broker.advance(1)
        self.holders.clear()
        self.crashes += 1
        self.fill()

    # --- the end

    def drain(self) -> None:
        """Let every record come to its end: nothing may be lost."""
        self.stall()
        for _ in range(20 * LIMIT):
            holder = self.pick()
            self.took(holder, holder.member.send_fetch(max_records=1000))
            live = sorted(one for one, deadline in holder.held.items() if deadline > self.broker.now)
            for offset in live:
                response = holder.member.acknowledge((offset, offset, [ACCEPT]))
                self.tell(not response.responses[0].partitions[0].error_code, f"{offset} could not be accepted")
                self.ended[offset] = ACCEPT
            holder.held.clear()
            self.broker.advance(0.1)
            if len(self.ended) == self.end:
                break
        lost = [one for one in range(self.end) if one not in self.ended and self.counts.get(one, 0) < LIMIT]
        self.tell(
            not lost, f"{lost[:5]} never came to an end; delivered {[self.counts.get(one, 0) for one in lost[:5]]}"
        )
        self.tell(not self.broker.warnings, f"the broker warns: {self.broker.warnings[:1]}")

    def tell(self, holds: bool, what: str) -> None:
        if not holds:
            raise Violation(what)
