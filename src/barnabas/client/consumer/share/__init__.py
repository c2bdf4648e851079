"""The share consumer: records of topics as a queue (KIP-932, KIP-1206, KIP-1222), shared by the members of a group.

Rule 1. **The brokers keep the state**: who has which record, how often it was delivered, when its lock is over. Here is
only what the application has now (`ShareFetch`) and what is to be said of it. What cannot be said (a leader that moved,
a session that ended) is answered with an error, and the broker delivers the record again.

Rule 2. **Everything but heartbeats belongs to the application's thread**, which sends and receives in its calls:
`poll`, `commit_sync`, `commit_async`, `close`. Between two of them the heartbeat thread may borrow it all for a moment,
to send what the application does not come for (`LateAcknowledgements`); it waits for nothing and tells the callback
nothing, and a call that comes meanwhile begins after it. The group's side is that of the consumer protocol
(`coordinator/`, `membership/`), with the heartbeat of share groups.

Rule 3. **Nothing is accepted that the application did not get.** An exception from outside, in the middle of a call,
drops what is here and ends the sessions with their connections, by which the brokers release the records. Records whose
lock may be over are not handed out. What a loop over the consumer has not come to counts as not delivered.

Rule 4. **One request to each broker is in flight.** Acknowledgements go with the next fetch, or by themselves where
none is to be sent now, where a lock is to be renewed, and where a commit was asked for. For an application that comes
back soon with many records, one fetch brings those of several polls, ahead of it (`FetchAhead`); it does not wait at
the broker, so that it holds up nothing that is to be said.

Rule 5. **What waits here is locked, and others may want it** (`ShareFetchBuffer`): it is no more than the application
takes in half a second, at its pace. It is given back when its partition is revoked, at the end of a subscription, and
when the application became so slow, or stays away, that half the time of the lock is over; it is dropped when the lock,
the connection or the leadership behind it has ended.

The way of a call: `ShareConsumer` → `SharePolling` → `ShareConsumeRequestManager` (a `ShareSessionHandler` for each
broker) → `ShareCompletedFetch` → `ShareInFlightBatch`, which hands records out and takes what is said of them. Offsets
are kept as ranges, so implicit acknowledgement costs nothing for each record.
"""
