"""Who the broker is and who the client is: TLS (`ssl_factory`), SASL (`sasl_client_authenticator` and mechanisms).

`channel_builder.create_channel_builder(config)` is the way in. Nothing here is loaded for security.protocol=PLAINTEXT.
"""
