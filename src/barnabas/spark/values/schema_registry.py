"""Schemas by id from a Confluent-compatible Schema Registry: the few bytes before a value, and what they stand for.

Producers and consumers take Confluent's own serializers and their registry client (docs/guide/serializers.md). That
client cannot serve here: it does not pickle (it holds an SSLContext), so it could not travel to the tasks, and each new
Python worker would load 500 modules, librdkafka among them, for the two GET requests that decoding makes.

https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html#wire-format
"""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from barnabas.errors import IllegalArgumentError, KafkaError

#: 0, then the schema's id as 4 bytes.
FRAME_SIZE = 5


class SchemaRegistryError(KafkaError):
    """The registry could not be asked, or did not answer as one; no fault of a record."""


def unframed(data: bytes) -> tuple[int, bytes]:
    """Return the schema's id and the value without its frame; raises ValueError where there is none."""
    if len(data) < FRAME_SIZE or data[0] != 0:
        start = data[:FRAME_SIZE].hex(" ")
        raise ValueError(f"no frame of the Schema Registry (0 and 4 bytes of schema id): it begins with [{start}]")
    return int.from_bytes(data[1:FRAME_SIZE], "big"), data[FRAME_SIZE:]


class SchemasById:
    """The schemas of a registry, each asked for once in a process; picklable."""

    def __init__(self, url: str, *, timeout: float = 10.0) -> None:
        """`url` as `http://host:8081`, with `user:password@` before the host where the registry wants them."""
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise IllegalArgumentError("the Schema Registry's URL must be of the form http://host:8081")
        host = parts.netloc.rpartition("@")[2]
        self.url = f"{parts.scheme}://{host}{parts.path.rstrip('/')}"
        self._timeout = timeout
        self._user = (
            f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
            if (parts.username)
            else None
        )
        self._schemas: dict[int, str] = {}

    def __repr__(self) -> str:
        return f"SchemasById({self.url!r})"

    def __call__(self, schema_id: int) -> str:
        """Return the schema's text; raises KeyError for an unknown id, SchemaRegistryError where the registry fails."""
        if schema_id not in self._schemas:
            found = self._get(f"/schemas/ids/{schema_id}")
            if found is None:
                raise KeyError(f"the Schema Registry {self.url} does not know the schema id {schema_id}")
            self._schemas[schema_id] = self._text(found)
        return self._schemas[schema_id]

    def latest(self, subject: str) -> str:
        """Return the latest schema of a subject."""
        found = self._get(f"/subjects/{urllib.parse.quote(subject, safe='')}/versions/latest")
        if found is None:
            raise SchemaRegistryError(f"the Schema Registry {self.url} does not know the subject {subject!r}")
        return self._text(found)

    def _text(self, found: Any) -> str:
        if found.get("references"):
            raise SchemaRegistryError(
                f"a schema of the Schema Registry {self.url} refers to other schemas "
                f"({', '.join(str(each.get('name')) for each in found['references'])}), which is not supported: give "
                "decode_avro the whole schema, and write with one that refers to none"
            )
        return str(found["schema"])

    def _get(self, path: str) -> Any:
        request = urllib.request.Request(self.url + path)  # noqa: S310 - http or https, checked above
        if self._user is not None:
            request.add_header("Authorization", "Basic " + base64.b64encode(self._user.encode()).decode())
        try:
            with urllib.request.urlopen(request, timeout=self._timeout) as response:  # noqa: S310 - as above
                return json.load(response)
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise SchemaRegistryError(f"the Schema Registry answered {error.code} to {self.url}{path}") from error
        except (OSError, ValueError) as error:
            raise SchemaRegistryError(
                f"the Schema Registry could not be asked for {self.url}{path}: {error}"
            ) from error
