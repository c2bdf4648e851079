"""The broker: `node` puts it together, `request_dispatcher` takes requests to `handlers`, `network` has the sockets."""
