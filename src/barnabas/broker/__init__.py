"""The broker: `node` puts it together, `broker_core` takes requests to `handlers`, `server` has the sockets."""
