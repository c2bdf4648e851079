"""How the broker's connections work: frames in, answers out, limits; only `socket_server.py` has sockets and clocks.

Rule 1. **Nothing here knows what is asked.** `RequestChannel` gives each frame to the dispatcher's `handle`;
import-linter holds that.

Rule 2. **A connection works on one request at a time.** While one is parked, while its client does not read, or while
it is muted (KIP-219), what follows waits in the `RequestBuffer`; when that is full the socket is not read.

Rule 3. **Memory is bounded.** A buffer grows with what has come, never by a claim; a connection without a request holds
none; `RequestMemory` bounds all large requests together, `ConnectionQuotas` the connections (KIP-402, KIP-612).

Rule 4. **A socket is a `Transport`**: asyncio's in `socket_server.py`, or what a test or the simulator brings. Large
ranges of the log go to it as `FileRegion`s, from the file to the socket.

`SocketServer` reads both clocks once for each turn, has the dispatcher settle what a turn has set off when it ends, and
wakes it at its next deadline; `attend` takes up what the storage threads have done.
"""
