"""Committed offsets: commit, fetch, delete, in transactions, and how they expire."""
