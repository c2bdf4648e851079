"""A client's metrics on their way to the cluster's operators (KIP-714)."""
