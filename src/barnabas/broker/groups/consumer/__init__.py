"""The consumer protocol: ConsumerGroupHeartbeat, target assignment and reconciliation (KIP-848)."""
