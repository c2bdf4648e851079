"""Each test of a command gives the clients' log back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.logs import log_of_the_clients_as_it_was


@pytest.fixture(autouse=True)
def _log_of_the_clients() -> Iterator[None]:
    with log_of_the_clients_as_it_was():
        yield
