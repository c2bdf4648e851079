"""The quotas of Kafka (QuotaConfig)."""

from __future__ import annotations

PRODUCE, FETCH, REQUEST = "producer_byte_rate", "consumer_byte_rate", "request_percentage"
MUTATION, CONNECTIONS = "controller_mutation_rate", "connection_creation_rate"

#: Quota → the type of its value.
USER_AND_CLIENT_QUOTAS = {PRODUCE: "long", FETCH: "long", REQUEST: "double", MUTATION: "double"}
IP_QUOTAS = {CONNECTIONS: "int"}
QUOTAS = (*USER_AND_CLIENT_QUOTAS, *IP_QUOTAS)
