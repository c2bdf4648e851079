"""The application's side of a group: rebalances as it sees them, its listener, its commits."""
