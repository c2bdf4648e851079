"""Kafka's settings: as data, parsed and checked, with an error that names the nearest known name.

`Config(section, properties, keywords)` is the way in; the sections are producer, consumer, admin, topic and broker.
"""
