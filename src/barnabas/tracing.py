"""Traces of OpenTelemetry, carried in the headers of records."""

from __future__ import annotations

from barnabas import _lazily

TYPE_CHECKING = False  # type checkers take it for typing's own

if TYPE_CHECKING:
    from barnabas.client.opentelemetry import (
        TracingConsumerInterceptor,
        TracingProducerInterceptor,
        context_of,
        processing,
    )

__all__ = [
    "TracingConsumerInterceptor",
    "TracingProducerInterceptor",
    "context_of",
    "processing",
]

_HOMES = {
    "barnabas.client.opentelemetry": "TracingConsumerInterceptor TracingProducerInterceptor context_of processing",
}

if not TYPE_CHECKING:  # a type checker would take any name for one of this module's
    __getattr__, __dir__ = _lazily(__name__, _HOMES)
