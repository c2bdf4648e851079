"""The application's side of a group: rebalances, commits, listeners. Owned by the application's thread.

`Coordinator` is what both protocols share: it takes the membership core's events, sends it commands, commits, and runs
callbacks. `ClassicCoordinator` decides when to join again, and takes assignments; where its member is the leader,
`GroupLeader` makes the one of an election (assignors, racks by KIP-881);
`ReconcilingCoordinator` (KIP-848) goes from what is owned to the target: commit, revoke, take, acknowledge, in this
order. It knows nothing of fetches, and everything that needs the network is a command.
"""
