"""Transactions of the producer."""
