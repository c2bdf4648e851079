"""TLS and SASL of the clients; loaded only where `security.protocol` asks for it.

Rule 1. **`create_channel_builder(config, client_id)`** gives the `Selector`, for each connection, a TLS layer in the
shape of a socket (`SslTransportLayer`) and a `SaslClientAuthenticator`. A connection is ready when both are done.

Rule 2. **Authenticator and mechanisms are sans-IO.** Hashing a password and fetching a token are `Work` that they hand
out and the builder's `worker` does in a thread of its own.

Rule 3. **A session is renewed before it ends** (KIP-368): the next send waits for it. A `Disconnection` with an
`authentication_error` is final: nothing is tried again on its own until the application has been told, and the Sender
fails what waits for that broker.

Rule 4. **No secret is shown or logged**, and what is wrong with a file or a key is a `ConfigError` when the client is
made.

To add a mechanism: a class beside `PlainSaslClient` (a `SaslClient`) and its row in `channel_builder`. OAUTHBEARER's
tokens come, as in Kafka, from a retriever by way of a validator (`oauth_bearer_login_callback_handler`); the
retrievers stand in the table of `jwt_retriever`, `http_jwt_retriever` is all that speaks HTTP, `jwt_assertion` all that
signs (PyJWT, the extra `oauth`).
"""
