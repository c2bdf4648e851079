"""What is stored and shipped: record batches, compression, checksums, Arrow."""
