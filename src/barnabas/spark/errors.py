"""What goes wrong in a source or a sink, said in the words of the options that decide it."""

from __future__ import annotations

from barnabas.errors import KafkaError


class OptionError(KafkaError, ValueError):
    """An option is missing, unknown, contradicts another one, or has a value that cannot be used."""


class DataLossError(KafkaError):
    """Offsets that a query was to read are gone, and `failOnDataLoss` is true."""


class SinkSchemaError(KafkaError, TypeError):
    """The rows given to the sink lack a column it needs, or have it in a type it cannot write."""
