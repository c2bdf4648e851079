"""What the heartbeat thread owns: the membership in the group, its coordinator's connection, and commits."""
