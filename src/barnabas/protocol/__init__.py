"""What is said: Kafka's messages, their codec, headers and framing, with no I/O."""
