"""Where `barnabas up --metrics` serves metrics."""

from __future__ import annotations

from barnabas.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from barnabas.broker.config import Listener
    from barnabas.cli.broker_settings import Options


def metrics_listener(args: Options | argparse.Namespace) -> Listener | None:
    """Return the listener that was asked for. Raises `ConfigError` for one that others reach unasked."""
    if args.metrics is None:
        return None
    from barnabas.broker.config import Listener, is_loopback, parse_address

    try:
        import prometheus_client  # noqa: F401 - only to see whether it is there
    except ImportError:
        raise ConfigError("--metrics needs the package prometheus-client: pip install 'barnabas[metrics]'") from None
    listener = Listener("METRICS", *parse_address(args.metrics))
    if not args.allow_remote and not is_loopback(listener.host):
        raise ConfigError(
            f"--metrics {args.metrics} can be reached from other machines and has no authentication: serve them on "
            "127.0.0.1, or accept that with --allow-remote"
        )
    return listener
