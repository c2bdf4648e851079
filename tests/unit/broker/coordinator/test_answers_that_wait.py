"""Every answer that rests on what a coordinator has in memory waits until that is committed."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

import pytest

import barnabas.protocol.messages as all_messages
from barnabas.broker.coordinator.committed_answers import with_commits
from barnabas.broker.handlers.registry import SERVED
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.message import Message, Struct

#: Fields by which a request says whom it asks about.
WHOM = {"group_id", "group_ids", "groups_names", "transactional_id", "transactional_ids"}
#: Requests that have such a field and ask no coordinator: who leads the partitions answers them.
OF_PARTITIONS = {ApiKey.PRODUCE, ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE}


def fields_of_requests() -> dict[int, set[str]]:
    """The names of all fields of each request, those of its parts with it."""
    found: dict[int, set[str]] = {}
    for module in iter_modules(all_messages.__path__):
        if module.name.endswith("_request"):
            classes = vars(import_module(f"{all_messages.__name__}.{module.name}")).values()
            parts = [one for one in classes if isinstance(one, type) and issubclass(one, Struct)]
            fields = {row.split()[0] for part in parts for row in getattr(part, "FIELDS", ())}
            found |= {part.API_KEY: fields for part in parts if issubclass(part, Message) and part is not Message}
    return found


FIELDS = fields_of_requests()
ASKING = sorted(key for key in SERVED if FIELDS.get(key, set()) & WHOM and key not in OF_PARTITIONS)


@pytest.mark.parametrize("key", ASKING, ids=lambda key: ApiKey(key).name)
def test_a_request_about_a_group_or_transaction_is_answered_when_all_is_committed(key: int) -> None:
    def local(*_: object) -> None: ...

    assert with_commits(key, local) is not local, "its answer tells what may still be lost"
