"""One file per API, named as Kafka's message: what a request does, and in which versions.

A handler has `API`, `VERSIONS`, `OPERATION` and `RESOURCE` (what a principal will need) and
`handle(broker, context, request) -> Message | DelayedOperation | None`. `broker` is the `BrokerState`, `context` the
`RequestContext` with the time and the connection. A handler is imported with its first request; `registry` has the
table. What follows a message in its frame is ignored, as in Kafka. An error that a client cannot be told any other way
is `CloseConnection`.

To add an API: a file here (the messages are generated already), the table of served APIs, and a test through
`tests/support/core_broker.py`. `not_served` says of the others why not; docs/reference/apis.md is made of both.
`plain_produce` is the short way of Produce: docs/internals/short-ways.md.
"""
