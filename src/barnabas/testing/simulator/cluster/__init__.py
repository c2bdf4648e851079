"""A whole cluster on virtual time: members under a quorum of controllers or ZooKeeper, and real clients.

Rule 1. **The nodes are those of a process.** `SimulatedMember` drives a `ClusterMember` with its `BrokerNode`,
`SimulatedController` a `ControllerNode` with its `RaftDriver`; what they ask each other goes through `NodeChannel` and
`NetworkClient` over connections of the simulated network. In the place of an event loop stands the machine. ZooKeeper
is a model that a test holds to a real server (`ModelZooKeeper`), reached by sessions that are late, lost, and expire
(`SimulatedZooKeeper`).

Rule 2. **One copy at a time may be lost.** Faults take what was not flushed, or a whole disk, from one broker only
while every partition has all its replicas in sync (`ClusterFaults`), and no other fault comes until the cluster counts
on it no more. So nothing that was acknowledged may be missing.

Rule 3. **In the end all is well again**: every replica is in sync, and all replicas of a partition hold the same.

`./run sim --cluster` plays it; what is simulated, and what must hold: docs/internals/simulator.md.
"""
