"""Who may come in through which listener, and do what: TLS, SASL, principals, ACLs.

Rule 1. **A `ListenerSecurity` says all about a listener**: its `ssl.SSLContext`, and which principal a certificate
stands for. What is wrong with its settings or files is a `ConfigError` at the start; nothing half-secured is served.

Rule 2. **What was replaced holds for the next connection.** `ListenerSecurities` looks after files every few seconds,
beside the loop, and makes contexts anew when settings change; what cannot be used leaves the old one in force, with a
warning.

Rule 3. **Until it is authenticated a connection costs next to nothing**: `network/unauthenticated_connections.py`
bounds their number and time, `network/tls_transport.py` what a handshake may send, and computes it in threads. The
answer to a failed login is held back by `SaslServerAuthenticator`.

Rule 4. **Logins are state machines.** `SaslServerAuthenticator` takes a connection's frames (`ClientConnection.handle`)
until it is done and sets the principal; afterwards it stands in the way only where sessions end (KIP-368). A mechanism
is a `SaslServer`: a token in, a token out, `identity` at the end, `SaslAuthenticationError` for the client. None waits:
keys of tokens are fetched in a thread (`jwks`), passwords are hashed where they are set.

Rule 5. **A wrong password and an unknown user look alike**, in what is answered and in the time that it takes; secrets
are compared by `hmac.compare_digest`. No secret is shown or logged.

Rule 6. **Each API has its row in `request_rules.RULES`**, and none is served without it where `authorizer.class.name`
is set: the dispatcher puts the rule before the handler. A rule answers in the handler's place, leaves out what is not
allowed, or changes the response; only Fetch asks by itself, for its sessions know more than the request. What the rules
come to is what an Apache Kafka answered (`tests/vectors/test_authorization_vectors.py`). The short way of Produce asks
`may_write_silently`, and leaves the rest to the rule.

Rule 7. **ACLs live in the metadata**, `Authorization` follows it; `StandardAuthorizer` decides in a time that does not
grow with their number. A denial is a line of the logger `barnabas.authorizer`, of one principal one a second.

To add a mechanism: a class beside `PlainSaslServer` and its row in `sasl_listener`.

What clients and broker share is below both, in `barnabas.network.security`: key stores, DER, versions and
suites of TLS, the arithmetic of SCRAM, JAAS lines.
"""
