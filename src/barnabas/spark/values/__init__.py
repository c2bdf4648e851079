"""Values of records as columns: Avro, Protobuf and JSON, with or without Schema Registry's framing."""
