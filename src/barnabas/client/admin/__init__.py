"""The admin client: every operation of Java's `Admin`, blocking and typed.

Rule 1. **The caller's thread drives the NetworkClient**, one call at a time; several threads may share a client.

Rule 2. **A method on several keys tries all, then raises if any failed**: the error itself, or one of the shared class,
or `PartialFailureError`, always with `.errors` and `.results`. `raise_errors=False` returns `Results`, a mapping of
what succeeded, with `.errors`.

Rule 3. **An operation is an `AdminApiHandler`**: whom to ask (`lookups`: any broker, the controller, one broker, a
partition's leader, a group's coordinator), `build_request(keys)`, `handle_response(keys, response, outcome)`.
`AdminApiDriver` does the rest: looks up, batches by broker, retries what may pass until the time is over, one key at a
time where a broker is too old for several. `requests` makes handlers of functions, for one kind of request.

Rule 4. **Methods are steps**, and do nothing after `_complete` or `_run`, so that `barnabas.aio` needs one line each.

The public methods stand in `*_operations.py`, one class per subject, on the ground of `admin_operations`; values and
handlers of a subject beside them (`topics`, `groups`, `configs`, ...). To add an operation: a handler, a method, and
the line in `barnabas.aio` (a test says when it is missing). docs/reference/admin.md lists all beside Java's.
"""
