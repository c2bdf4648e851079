"""The classic protocol: JoinGroup, SyncGroup, Heartbeat and LeaveGroup (KIP-62, KIP-134, KIP-345, KIP-394)."""
