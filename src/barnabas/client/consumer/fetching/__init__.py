"""Reading: positions, fetches and what they brought. Owned by the application's thread; it knows nothing of groups.

`Fetcher` sends what `FetchPlan` says each broker is to be asked for, in sessions (`FetchSessionHandler`, KIP-227), to
the replica that the leader recommends (KIP-392) and back to the leader when time is over, the replica is gone or lacks
the offset. `FetchCollector` hands out what came, `CompletedFetch` by `CompletedFetch`, decoded as far as asked.
`OffsetFetcher` looks positions up and validates them after a change of leader (KIP-320).

Changes of what a broker is to be asked for are told to the plan (`SubscriptionState`'s notes, `note_buffered`), so the
cost of a fetch does not grow with the partitions; a test holds the plan against one made anew.
"""
