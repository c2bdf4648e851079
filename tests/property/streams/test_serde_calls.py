"""What compiled code reads and writes by itself is what the serde reads and writes, errors among it."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.streams import Serdes
from barnabas.streams.serdes.serde_calls import SerdeCalls


class Number(int):
    """An int of another type."""


SERDES = {
    "text": Serdes.string(), "long": Serdes.long(), "integer": Serdes.integer(), "double": Serdes.double(),
    "bytes": Serdes.bytes(), "boolean": Serdes.boolean(), "void": Serdes.void(),
}  # fmt: skip
LONGS = st.one_of(st.sampled_from([-(2**63) - 1, -(2**63), -1, 0, 2**63 - 1, 2**63]), st.integers())
TEXTS = st.text(st.characters(), max_size=4) | st.sampled_from(["\ud800", "é\udcff", "\U0001f600"])
DATA = st.binary(max_size=9) | st.binary(min_size=8, max_size=8)
VALUES = st.one_of(
    st.none(), LONGS, LONGS.map(Number), TEXTS, DATA, DATA.map(bytearray), st.booleans(), st.floats(allow_nan=False)
)


def outcome(call: Callable[..., Any], given: Any) -> Any:
    try:
        found = call("topic", given, [])
    except Exception as problem:  # noqa: BLE001 - the serde's own
        return type(problem), str(problem)
    return type(found), found


@pytest.mark.parametrize("serde", SERDES.values(), ids=SERDES)
@given(value=VALUES)
def test_values_become_the_bytes_that_the_serde_writes(serde, value):
    assert outcome(SerdeCalls(serde).serialize, value) == outcome(serde.serialize, value)


@pytest.mark.parametrize("serde", SERDES.values(), ids=SERDES)
@given(data=st.one_of(st.none(), DATA, DATA.map(bytearray), TEXTS.map(lambda text: text.encode("utf-8", "replace"))))
def test_bytes_become_the_values_that_the_serde_reads(serde, data):
    assert outcome(SerdeCalls(serde).deserialize, data) == outcome(serde.deserialize, data)


def test_a_serializer_alone_is_called_as_it_is():
    class Half:
        def serialize(self, topic, value, headers):
            return f"{topic} {value} {headers}".encode()

    assert SerdeCalls(Half()).serialize("t", 1, []) == b"t 1 []"
