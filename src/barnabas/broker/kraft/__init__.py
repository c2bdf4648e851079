"""A node with the role controller: the quorum (`broker/raft`) and the controller (`broker/controller`) behind sockets.

`ControllerServer` is what a process runs, alone (`process.roles=controller`) or beside a broker
(`process.roles=broker,controller`); `ControllerNode` puts the parts together, without sockets. Names and behaviour are
those of Kafka's ControllerServer, ControllerApis, ControllerRegistrationManager, KafkaRaftManager and Formatter.

Rule 1. **A directory belongs to one cluster before the first byte goes out.** `QuorumStorage` locks it and reads
`meta.properties`; what was formatted for another node or cluster, or not at all, is refused. Only a node that is all of
its quorum formats itself: of several, each would be a cluster of its own.

Rule 2. **Each request passes its rule first** (`controller_rules.py`), whether it came through a listener or in an
Envelope, where the principal is the client's. None is served without a rule.

Rule 3. **The quorum's requests go to `RaftDriver`, all others to `ControllerApis`.** Both answer now or later, on the
loop; a handler waits for nothing. After each request the quorum gets a turn, which gathers what was appended.

Rule 4. **What the node itself goes by is committed**: ACLs, users, quotas and settings come from the committed image,
by the same `ImageStore` as in a broker. A standby serves nothing but reads and the quorum.

Rule 5. **A fault of the quorum ends the process**, and says why: its log can be trusted no more
(`barnabas.broker.raft`, rule 4).

Rule 6. **In one process with a broker the log is read in memory** (`LocalMetadataLog`): a broker that fetched in the
name of its own node would acknowledge records for a voter.

Rule 7. **That a broker's process has ended is concluded from refused connections only, that its machine is gone from
its silence while others are heard** (`broker_probes.py`), and only for the life that was asked after; all else is for
the session to decide.
"""
