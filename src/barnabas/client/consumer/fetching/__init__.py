"""How records come from brokers: fetch sessions, responses in memory, positions that are looked up."""
