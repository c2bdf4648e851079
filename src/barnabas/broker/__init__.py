"""The broker: `node` puts it together, `request_dispatcher` takes requests to `handlers`, `network` has the sockets.

Rule 1. **Everything behind the dispatcher belongs to the event loop's thread**, so no state has a lock. State machines
get an `Instant` (both clocks, read together) and touch no socket, disk or global randomness; only
`network/socket_server.py` has the sockets, only `log/filesystem.py` the log files, only the stores in `metadata` their
databases.

Rule 2. **A request is an object** (`Request`): a handler returns its response, a parked `DelayedOperation`, or None
where no response is expected. A request's frame is valid until its handler returns; what is kept of it is copied. A
connection works on one request at a time, as in Kafka.

Rule 3. **What waits is parked, once** (`purgatory`): answered by `complete`, by `try_complete` after one of its keys
was marked, or by `on_expiration`. Marking is cheap; marked operations are asked once, at the end of a turn. Background
work comes in pieces, with a budget.

Rule 4. **Everything that a client can make the broker keep has a bound** (tests/unit/broker/test_bounds.py,
tests/contract/broker/test_hostile_clients.py). Expressions of clients go through an automaton, never `re`.

Rule 5. **Whoever adds a check to the general way of Produce makes the short ways refuse where it would matter**:
docs/internals/short-ways.md.

- `BrokerNode(config, data_directory, store, ...)` is a broker without sockets and clock; `network/socket_server.py` the
  asyncio shell around it, `tests/support/core_broker.py` the one of the tests, `embedded` the child process of
  `Broker()`, `runner` that of `barnabas up`.
- `replica_manager`: `partition(topic, index)` raises what the client is to be told; `append` wakes fetches. `Partition`
  has leader epoch and high watermark. A log is made when its partition is first used.
- `config`: `BrokerConfig` shows what holds now; `dynamic_config` has the settings that may change and takes them over
  from the metadata, so whoever reads `config[...]` when it matters follows by itself. `config_admin` checks and stores
  changes. A new feature level: a row in `features`.
- `client_quotas` measures only while a quota is set; a handler that finds one exceeded says so in the context, the
  response tells it and the connection is muted (KIP-219).
- Observers are told of every answered request (metrics, request log); without them no time is taken.
- `coordinator/` is what `groups/` and `transactions/` share. Their code loads with the first request that needs it.
"""
