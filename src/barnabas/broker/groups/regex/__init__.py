"""Regular expressions of clients, matched in linear time."""
