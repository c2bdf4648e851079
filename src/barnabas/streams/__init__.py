"""Kafka Streams in Python: the DSL and the Processor API, from topic to topic."""
