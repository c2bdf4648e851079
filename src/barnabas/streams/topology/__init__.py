"""What a topology is made of: nodes, stores, sub-topologies, internal topics, and how it is described.

Rules of the room
-----------------
1. **Nothing here runs.** A node holds a supplier that makes processors, a `StoreBuilder` says what a store must be; the
   engine makes both for each task. `processor_api` is what user code and engine agree on.
2. **`TopologyBuilder` refuses what cannot be**, in Kafka's order of checks and with its words. `Topology` is its public
   face, and the DSL its other user.
3. **Topics have two names**: short, as the topology knows its internal ones, and with the application's id before them,
   as they are on the cluster. `rewrite_topology` gives the id, `processor_topology` the long names.
4. **`describe()` prints what Kafka prints, to the letter**, which takes the order of Java's collections (`java_order`).

`sensors` are what tasks and processors count with, `node_groups` finds sub-topologies, `copartitioning` what must be
partitioned alike, `internal_resources_naming` generated names, `origins` the user's lines; `internal_topic_config` has
the settings of internal topics.
Source: Kafka's InternalTopologyBuilder.
"""
