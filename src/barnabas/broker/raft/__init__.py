"""The quorum of controllers (KRaft), so far as an observer sees it: a broker that reads the metadata log.

`MetadataLogObserver` fetches the log from whichever controller leads, and `MetadataLoader` makes images of it. The
names are Kafka's; behaviour follows KafkaRaftClient and MetadataLoader (KIP-595, 630, 631, 868).

Rule 1. **Nothing here knows a socket or a clock.** The observer is a `Requester` (`barnabas.broker.network`): it gives
one request at a time, and is told what came of it.

Rule 2. **What is not committed is not shown.** An observer is sent records beyond the high watermark. They wait, and
go again if the next leader does not have them; what was committed never goes.

Rule 3. **A leader is believed by its epoch.** An answer of an earlier epoch than the one known changes nothing.

Rule 4. **The log is kept in memory only as far as it is not applied.** A broker that starts reads the newest snapshot
and what follows it from the controllers, as it does when its offset is older than their log.

Rule 5. **A transaction of the controller is applied whole or not at all** (KIP-868).

`RaftClient` (`raft_client.py`) is the port through which the controller appends and hears what is committed.

Votes, and a log on a disk of our own, are not built yet (docs/internals/cluster.md).
"""
