"""What a broker counts, for Prometheus: under the names that Kafka's own metrics get there."""
