"""The consumer: two cores, one owner each, which exchange messages.

Rule 1. **Two owners, two folders, no lock.** `fetching/` and `coordinator/` belong to the application's thread, which
drives them in `poll`; `membership/` belongs to the heartbeat thread, which goes on while the application works. They
speak by immutable commands and events in two queues (`membership/messages.py`). import-linter holds the walls:
`fetching` knows no group, `membership` neither of the others.

Rule 2. **Listeners, callbacks, assignors and deserializers run on the application's thread, inside a call it made**,
with no lock held. They may call back into the consumer (`poll` in a listener apart, which is refused). A second thread
is refused by `SingleThreadUse`; `wakeup()` may come from anywhere.

Rule 3. **What waits is written once, as `Steps`** (`ConsumerPolling`), for threads and event loops. Nothing is awaited
between taking records out of the fetcher and returning them, so cancelling loses and doubles nothing.

Rule 4. **The next fetch is sent when the data of the last one begins to be handed out**, so a broker accounts for at
most two answers in memory, each at most `fetch.max.bytes`. Data of a partition whose position jumped is dropped, known
by its `seek_id`.

The way of a call: `Consumer` (`consumer_base` has what does not wait) → `ConsumerPolling` → the coordinator, the
`OffsetFetcher`, the `Fetcher` and the `FetchCollector`.

- `fetching/`: `SubscriptionState`'s reader and writer; `FetchPlan` holds what each broker is to be asked for, and
  every change of that is noted by partition, so a fetch looks at those only.
- `coordinator/`: `Coordinator` is what both group protocols share (events, commits, leaving); `ClassicCoordinator` and
  `ReconcilingCoordinator` (KIP-848) are the rest.
- `membership/`: `MembershipCore` with a `GroupMembership` (`ClassicMembership` or `ConsumerMembershipManager`) and
  `CommitRequestManager`, which asks it as whom to commit at the moment of sending.
- `assignors/`: how the leader of a classic group assigns.
- A record's fields are slots (`consumer_record`), and it is made when the loop comes to it.

Both group protocols, step by step, with what happens while the application is busy: docs/internals/consumer-cores.md.
"""
