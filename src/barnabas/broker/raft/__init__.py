"""The quorum of controllers (KRaft): Raft as Kafka has it, and an observer that reads the metadata log.

`KafkaRaftClient` is a voter or observer with a log of its own, and what a controller stands on (`raft_client.py` is the
port). `MetadataLogObserver` is what a broker needs: it fetches the log from whichever controller leads and keeps none;
`MetadataLoader` makes images. The names are Kafka's; behaviour follows KafkaRaftClient, QuorumState, LeaderState,
KafkaMetadataLog and MetadataLoader (KIP-595, 630, 631, 853, 868, 996, 1166, 1186).

Rule 1. **Nothing here knows a socket, a clock or randomness of its own.** Requests go out as values, the disk is behind
`ReplicatedLog` and `QuorumStateStore`.

Rule 2. **What was promised is on the disk before another node can rely on it**: epoch, vote and leader before a
response or request says so; records before a fetch acknowledges them; the leader's own copy before it counts.

Rule 3. **A record is committed when a majority of the voters has it, and one of the leader's own epoch behind it.**
What is not committed is not shown, and may go; what is never goes.

Rule 4. **A leader is believed by its epoch.** A message of an earlier epoch changes nothing, one of a later ends what
was. Two leaders in one epoch, or a truncation below what is committed, end the process: its log can be trusted no more.

Rule 5. **A pre-vote promises nothing, and is refused by who hears from a leader** (KIP-996).

Rule 6. **Voters count as soon as they are written, and change one at a time** (KIP-853).

Rule 7. **A transaction of the controller is applied whole or not at all** (KIP-868).

The state: `quorum_state.py`; `epoch_states.py`, with to whom each state gives its vote; `leader_state.py`. Messages:
`voting.py`, `fetch_server.py`, `follower_fetcher.py`, `voter_changes.py`; what they share is `replica.py`.
"""
