"""Who wants records in the log (AppendOrigin); it decides what is checked."""

from __future__ import annotations

REPLICATION = 0
"""Copied from a leader that has checked it, or read back from the log; not checked."""
COORDINATOR = 1
"""Written by a group or transaction coordinator: producer epochs are checked, sequence numbers are not."""
CLIENT = 2
"""Sent by a client; checked in full."""
