"""A small schema registry over HTTP, for tests: subjects, versions and ids, in memory."""

from __future__ import annotations

import http.server
import json
import threading
import urllib.parse
import uuid
from types import TracebackType
from typing import Any, Self


class SchemaRegistry:
    """Speaks the part of Confluent's REST interface that serializers use; a context manager with a `url`."""

    def __init__(self) -> None:
        self.schemas: list[dict[str, Any]] = []
        self.subjects: dict[str, list[int]] = {}
        self.levels: dict[str, str] = {}
        self.deleted: set[tuple[str, int]] = set()
        self.requests: list[str] = []
        registry = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer("GET", {})

            def do_POST(self) -> None:
                self._answer("POST", json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

            def do_PUT(self) -> None:
                self._answer("PUT", json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

            def do_DELETE(self) -> None:
                self._answer("DELETE", {})

            def _answer(self, method: str, body: dict[str, Any]) -> None:
                path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
                registry.requests.append(f"{method} {path}")
                status, answer = registry.answer(method, path.strip("/").split("/"), body)
                data = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: Any) -> None:
                return

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    def answer(self, method: str, path: list[str], body: dict[str, Any]) -> tuple[int, Any]:
        """Status and body."""
        if path[:2] == ["schemas", "ids"]:
            number = int(path[2])
            known = 1 <= number <= len(self.schemas)
            return (200, self.schemas[number - 1]) if known else (404, _error(40403, "Schema not found"))
        if path[:2] == ["schemas", "guids"]:
            found = [schema for schema in self.schemas if _guid(schema) == path[2]]
            return (200, {"guid": path[2], **found[0]}) if found else (404, _error(40403, "Schema not found"))
        if path[0] == "config":
            return self._level(method, path, body)
        if path[0] == "compatibility":
            # Compatible is here what has all fields of the newest version.
            known = self._fields(self.schemas[self.subjects[path[2]][-1] - 1]["schema"])
            return 200, {"is_compatible": known <= self._fields(body["schema"])}
        if path[0] != "subjects":
            return 404, _error(404, "Not found")
        if len(path) == 1:
            return 200, sorted(self.subjects)
        versions = self.subjects.get(path[1], [])
        if method == "POST":
            return self._post(path, versions, body)
        if method == "DELETE" and versions:
            return self._delete(path, versions)
        if path[-1] == "versions" and versions:
            return 200, [number for number in range(1, len(versions) + 1) if (path[1], number) not in self.deleted]
        if path[-1] == "latest" and versions:
            return 200, self._registered(path[1], len(versions))
        if path[-1].isdigit() and int(path[-1]) <= len(versions):
            return 200, self._registered(path[1], int(path[-1]))
        return 404, _error(40401, "Subject not found")

    @staticmethod
    def _fields(schema: str) -> set[str]:
        return {field["name"] for field in json.loads(schema).get("fields", [])}

    def _level(self, method: str, path: list[str], body: dict[str, Any]) -> tuple[int, Any]:
        if method == "PUT":
            self.levels[path[1]] = body["compatibility"]
            return 200, body
        if len(path) == 1:
            return 200, {"compatibilityLevel": "BACKWARD"}
        level = self.levels.get(path[1])
        return (404, _error(40408, "no own level")) if level is None else (200, {"compatibilityLevel": level})

    def _delete(self, path: list[str], versions: list[int]) -> tuple[int, Any]:
        if len(path) == 2:
            del self.subjects[path[1]]
            return 200, list(range(1, len(versions) + 1))
        self.deleted.add((path[1], int(path[3])))
        return 200, int(path[3])

    def _post(self, path: list[str], versions: list[int], body: dict[str, Any]) -> tuple[int, Any]:
        schema = {key: body[key] for key in ("schema", "schemaType", "references") if body.get(key)}
        if path[-1] == "versions":
            if schema not in self.schemas:
                self.schemas.append(schema)
            number = self.schemas.index(schema) + 1
            known = self.subjects.setdefault(path[1], [])
            if number not in known:
                known.append(number)
            return 200, {"id": number, "guid": _guid(schema)}
        for version, number in enumerate(versions, 1):
            if self.schemas[number - 1] == schema:
                return 200, self._registered(path[1], version)
        return 404, _error(40403, "Schema not found")

    def _registered(self, subject: str, version: int) -> dict[str, Any]:
        number = self.subjects[subject][version - 1]
        schema = self.schemas[number - 1]
        return {"subject": subject, "version": version, "id": number, "guid": _guid(schema), **schema}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _guid(schema: dict[str, Any]) -> str:
    """The same for equal schemas, everywhere."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(schema, sort_keys=True)))


def _error(code: int, message: str) -> dict[str, Any]:
    return {"error_code": code, "message": message}
