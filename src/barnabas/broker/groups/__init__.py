"""Consumer groups and their committed offsets."""
