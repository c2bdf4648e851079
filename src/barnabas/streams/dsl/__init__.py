"""The DSL: streams and tables, whose methods are steps of a topology.

Rules of the room
-----------------
1. **A method adds a node to the builder's graph (`graph/`) and returns what comes out**: a KStream, a KTable, a group.
   Nothing is written to a topology before `build()`, so that `optimizer` can move and merge nodes.
2. **Names are counted as Kafka counts them** (`operator_names`): every step takes its numbers in Kafka's order, even
   where the user named it and where Kafka takes one for nothing. `describe()` shows it, changelog topics carry it.
3. **Serdes go along** (`abstract_stream.Upstream`): a step that changes keys or values forgets theirs, an option object
   overrides; None is the default of the settings.
4. **Overloads are one method**: options come in any order (`options.pick`), functions may leave the key out
   (`functions.with_key`). What does not fit is a TypeError at that line.
5. Old values travel only where a step asks for them (`KTable.enable_sending_old_values`), and a table has a store only
   where it is named or a step needs to look values up (`KTable.value_getter_supplier`).
6. **The public classes form the house's one circle of types.** A KStream's methods return KTables and grouped streams,
   whose methods return KTables, which become KStreams again: that is Kafka's API. Protocols would write every signature
   twice and show users other names than those they import. At run time a method imports the class that it makes.

Source: Kafka's packages `kstream`, `kstream.internals` and `kstream.internals.graph`; a file is named for its class.
"""
