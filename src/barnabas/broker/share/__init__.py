"""Share groups (KIP-932): the states of share-partitions, kept by the share coordinator in `coordinator/`.

A share-partition is a partition of a topic as one group shares it (`SharePartitionKey`).

Rule 1. **Who leads a share-partition keeps its state through `Persister`**, and takes it up again from there: what a
member was told is stored before.
"""
