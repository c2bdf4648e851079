"""Who may come in through which listener: TLS and principals.

Rule 1. **A `ListenerSecurity` says all about a listener**: its `ssl.SSLContext`, and which principal a certificate
stands for. What is wrong with its settings or files is a `ConfigError` at the start; nothing half-secured is served.

Rule 2. **What was replaced holds for the next connection.** `ListenerSecurities` looks after files every few seconds,
beside the loop, and makes contexts anew when settings change; what cannot be used leaves the old one in force, with a
warning.

Rule 3. **Until it is authenticated a connection costs next to nothing**: `network/pending_logins.py` bounds their
number and time, `network/tls_transport.py` what a handshake may send, and computes it in threads.

Rule 4. **No secret is shown or logged.**

What clients and broker share is below both, in `barnabas.network.security`: key stores, DER, versions and suites.
"""
