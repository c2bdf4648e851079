"""The Kafka clients (producer, consumer, admin) and what they share: metadata, serializers, metrics, telemetry.

Rule 1. **Each client is cores and a shell.** A core is a state machine on a `NetworkClient`, without thread or clock;
a shell for threads stands here, one for event loops in `barnabas.aio`. What waits is written once, as `Steps`
(`steps`): a generator that yields where a client on an event loop waits, and what a listener or callback returned to
be awaited. A thread runs it through, since it waits inside of `NetworkClient.poll`.

Rule 2. **The outside world comes in through one object**, `Environment`: clock, wall clock, randomness, selector, and
what drives a core. A simulator passes its own.

Rule 3. **No lock is held while code of the application runs**, and callbacks run only where the page of the client
says.

- `Metadata` is thread-safe: application threads ask (`fetch() -> Cluster`, `request_update()`, `await_update`), the
  thread that polls updates. `Cluster` is an immutable snapshot. Subclasses say what a client is interested in
  (`ProducerMetadata` forgets idle topics, `AdminMetadata` wants none and can ask for controllers, KIP-919).
  `DefaultMetadataUpdater` connects it to the NetworkClient, with rebootstrap (KIP-899, KIP-1102).
- `client_utils.create_network_client(config, client_id, metadata, ...)` puts all together.
- `serializers`, `format_serializers`: between values and bytes. `interceptors`: the application's code that sees what
  passes.
- `prometheus`, `opentelemetry`: metrics and traces for other people's tools. `telemetry`: metrics pushed to the
  cluster (KIP-714).
"""
