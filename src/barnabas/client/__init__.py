"""The Kafka clients: producer, consumer, admin."""
