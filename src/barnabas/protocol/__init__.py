"""What is said: Kafka's messages, their codec, headers and framing, with no I/O.

Rule 1. **One class per struct, for all versions**, under Kafka's names: `barnabas.protocol.messages.fetch_request` has
`FetchRequest`, `FetchTopic`, `FetchPartition`. Attributes are the schema's fields in snake_case; every field is a
keyword of `__init__`, with the schema's default; lists default to a new empty list. An argument whose default is `NEW`
becomes a new list or struct; None means null, where the schema allows it. `uuid` is 16 `bytes`, `records` a buffer
(a `memoryview` after decoding) or None.

Rule 2. **`Message.encode(version) -> bytes`, `Message.decode(data, version)`**, the whole buffer being one message;
`==` and `repr`. Class variables: `NAME`, `API_KEY`, `VALID_VERSIONS`, `FLEXIBLE_FROM`. Unknown tagged fields are kept
in `unknown_tagged_fields`.

Rule 3. **Any malformed input raises `ProtocolError`** with field path and offset, and nothing else. What a version
cannot carry: a field marked ignorable is dropped, any other that is not at its default raises
`UnsupportedVersionError`. A value that does not fit its field raises `IllegalArgumentError` or `IllegalTypeError`,
with the field's path.

Rule 4. **A fact stands once**: `kinds` has resource types, operations, isolation levels, config sources; `thresholds`
the versions from which something holds; `producer_identity` and `epochs` the ids that mean none; `names` Kafka's names.

How it works: a generated class holds a table `FIELDS`, one line per field. `plan` makes of it, at first use, the `Plan`
of one class in one version; `codec` is the only code that reads or writes by plans, compiled, and bounded: a claimed
size is never trusted before its bytes are there. `native.py` and `native.pxd` are its memory accesses, once in Python
and once in C.

- `api`: `ApiKey`, `request_class(key)`, `response_class(key)`, header versions, `negotiate(key, low, high) -> int`.
- `framing`: `encode_request`, `decode_request`, `encode_response -> list[Buffer]` (the size first, large records as
  buffers of their own, never copied), `decode_response`, `FrameReader(max_size)`; frames it hands out stay valid. An
  ApiVersions request of an unknown version is read as an empty one (KIP-511).
- `EncodedElements` stands in the place of a list whose elements are bytes already (`framing.encode_elements`): large
  responses are made so, a piece at a time.
- `json_view`: any message as JSON, and back, by Kafka's rules. `kafka_uuid`: ids as text.
- `messages/`, `api_keys.py` and `barnabas.errors` are generated from `schema/` by `python -m codegen`.

A new Kafka version: replace `schema/messages.json` and `schema/errors.json`, run `python -m codegen`, see what the
vectors say.
"""
