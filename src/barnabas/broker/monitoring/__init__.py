"""What to watch a broker with: a Grafana dashboard and alert rules for Prometheus, on the metrics it serves."""
