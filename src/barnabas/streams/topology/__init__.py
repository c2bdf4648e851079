"""What a topology is made of: nodes, stores, sub-topologies, and how it is described."""
