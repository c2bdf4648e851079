"""Kafka's settings as data: names, types, defaults, ranges."""
