"""How the broker's connections work: sockets, frames, limits. `socket_server` has the sockets, the rest has none."""
