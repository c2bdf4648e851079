"""The broker's end of the clients' telemetry (KIP-714).

`ClientMetricsManager` says which client is asked for which metrics, and how often; `ClientMetricsReceiver` keeps what
was pushed, for three intervals, and shows it to Prometheus. Without a metrics listener there is neither, and
ApiVersions leaves the APIs out. Pushes are bounded (`telemetry.max.bytes`), and so is what is kept.
"""
