"""The log: segments, indexes, recovery, in Kafka's file formats."""
