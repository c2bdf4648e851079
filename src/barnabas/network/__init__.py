"""How bytes travel between a client and the brokers.

Rule 1. **`NetworkClient` is Kafka's: poll-driven, with no thread of its own.** The one thread that polls it owns it,
its connections and its requests in flight; `wakeup()` may come from any thread. Time is an argument, and passes only in
`Selectable.poll(timeout, now) -> float`.

Rule 2. **Every request is answered once**: `ClientResponse` with `message` or `error`, or `disconnected`, `timed_out`,
`version_mismatch`. Callbacks run in `poll`. A request that cannot be encoded fails; it disturbs no other.

Rule 3. **`Selectable` is the one port to the outside**: connections that carry frames, and time. `Selector` is that
port on sockets, the only file that touches them; tests and the simulator bring others
(tests/support/network_fakes.py).

Rule 4. **Buffers are not copied.** A large frame is received into its own buffer (`NetworkReceive`), used again when
nothing refers to it; a large record is sent from where it lies.

Rule 5. **Metadata goes first.** `poll` asks a `MetadataUpdater` before everything else; while a metadata request is
due no node is ready.

Rule 6. **Who is silent is asked about, and who is gone is left.** A node that owes an answer or a connection for longer
than `silent_nodes.PATIENCE`, or a connection at all after a time-out, has the `MetadataUpdater` ask another one, ever
more slowly; when metadata that came since do not list it, its connection is closed as if lost.

The parts: `ClusterConnectionStates` (when a broker may be tried), `ApiVersions` (what each
understands, and in which version it is asked),
`InFlightRequests` (FIFO for each node), `IdleExpiryManager`, `RequestBuilder` (a request whose content depends on the
version), `ready`, `poll_delay` (with throttling, KIP-219), `least_loaded_node`, `send`, `disconnect`.
Names are looked up in a thread of their own; all addresses of a host are tried in one attempt.

`log_context` puts the client's id before the messages of parts that do not know it; loggers are `barnabas.<room>`.
`sampled_stat` is Kafka's sampled statistics: what is recorded gets the time, reading changes nothing. `metric_group` is
the shape of all numbers; `telemetry_sender` pushes them over connections that are there anyway (KIP-714).

TLS and SASL: `network.security`, loaded only where `security.protocol` asks for it.
"""
