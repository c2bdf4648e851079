"""One file per API, named as Kafka's message: what a request does, and in which versions.

A handler has `API`, `VERSIONS` and `handle(broker, context, request) -> Message | DelayedOperation | None`; what a
principal needs for it stands in `broker/security/request_rules.py`. `broker` is the `BrokerState`, `context` the
`RequestContext` with the time and the connection. A handler is imported with its first request. Its docstring tells
what each version changed; `VERSIONS` stands there alone, the table in `served_apis` is made from the handlers by
`python -m codegen`. What follows a message in its frame is ignored, as in Kafka. An error that a client cannot be told
any other way is `CloseConnection`.

A request names a topic, group or resource once, however often it is repeated. **A response may grow with the request,
not with the square of it, and no turn of the loop is long**: what may be large is answered by
`piecewise.answer_in_pieces`, a piece at a time. `tests/unit/broker/test_amplification.py` sends the worst requests of
each API.

To add an API: a file here (the messages are generated already), `python -m codegen`, and a test through
`tests/support/core_broker.py`. `not_served` says of the others why not; docs/reference/apis.md is made of both.
`plain_produce` is the short way of Produce: docs/internals/short-ways.md.
"""
