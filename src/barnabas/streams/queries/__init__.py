"""Queries of state stores from any process: copies that are kept current from the changelog topics.

Rules of the room
-----------------
1. A view needs the topology, the settings and the cluster; neither Spark nor the application have to run.
2. What a query sees is committed: all that was when it began, and nothing of a batch that is still computed.
3. A view has a store for each partition, made and restored as a task's; it answers for all of them, one after the
   other, as Kafka's composite stores do. It takes as much memory as the store.

File: `store_view`; what it reads comes by `barnabas.streams.store_changelog_reader`, as a task's state on Spark.
"""
