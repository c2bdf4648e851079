"""The Kafka clients (producer, consumer, admin) and what they share: metadata, serializers, metrics, telemetry."""
