"""The clients' metrics pushed to the cluster (KIP-714), with metrics of the application's own (KIP-1076).

Rule 1. `ClientTelemetrySender` is the state machine: what to ask or push next, when, and what the answers mean. It
knows no connection; `network/telemetry_sender.py` sends for it in `NetworkClient.poll`, over connections that are
there anyway, and requests of the client's own are answered to their owner, not to the caller of `poll`.

Rule 2. A consumer has one state machine for its two NetworkClients: the membership core's sends, the application's
where there is none, and the last push at close.

Rule 3. Metrics without a subscription are not collected; a broker without a receiver is asked nothing.

`KafkaMetricsCollector` gives names and kinds, `otlp` writes them in OpenTelemetry's format. The other end is
`barnabas.broker.client_metrics`.
"""
