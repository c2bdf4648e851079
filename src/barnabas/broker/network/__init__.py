"""How the broker's connections work: sockets, frames, limits. `socket_server` has the sockets, the rest has none.

Rule 1. `SocketServer` is an asyncio protocol per connection: bytes go into the connection's `RequestBuffer`, responses
come out by the `Transport`; large ranges of files go to the socket by `sendfile`.

Rule 2. `RequestBuffer` grows with what has come, never by a claim; a connection without a request holds no buffer, and
all of them together at most what `RequestMemory` allows. Bytes that slow readers leave unsent are counted.

Rule 3. A connection has one request in work. `RequestChannel` says whose turn it is, and holds connections that wait:
a parked request, or a client that is muted (KIP-219).

Rule 4. A connection whose client sends no more is closed when all that came before is answered, also behind a parked
request; when the socket itself is gone, what is left is dropped.

`connection_quotas` counts connections, in all and by address; half of the descriptors stay with the log.
"""
