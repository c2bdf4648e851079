"""The producer: Serializer, Partitioner, RecordAccumulator, Sender."""
