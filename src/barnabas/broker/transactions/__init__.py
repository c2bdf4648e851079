"""Transactions: the coordinator, its log, and the markers that end transactions (KIP-98, KIP-890, KIP-939)."""
