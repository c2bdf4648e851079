"""What foreign-key joins write, read and hash in C is what the same lines do in Python, errors among it."""

from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from barnabas.streams import Serdes
from barnabas.streams.serdes import foreign_key, murmur3
from barnabas.streams.serdes.foreign_key import CombinedKeySchema, Instruction, SubscriptionWrapper
from barnabas.streams.serdes.serde_calls import SerdeCalls

LONGS = st.integers(-(2**63), 2**63 - 1)
HASHES = st.none() | st.tuples(LONGS, LONGS)
TEXTS = st.text(max_size=6)
PARTITIONS = st.integers(-(2**31), 2**31 - 1)


def in_python(module: ModuleType) -> Any:
    """A module once more, from its source."""
    path = Path("src", *module.__name__.split(".")).with_suffix(".py")
    loader = SourceFileLoader(f"{module.__name__}_in_python", str(path))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    made = module_from_spec(spec)
    loader.exec_module(made)
    return made


PYTHON = in_python(foreign_key)
HASH_IN_PYTHON = in_python(murmur3).hash128


def outcome(call: Callable[..., Any], given: Any) -> Any:
    try:
        found = call("topic", given, [])
    except Exception as problem:  # noqa: BLE001 - the serde's own
        return type(problem)
    return tuple(found) if isinstance(found, tuple) else found


@given(st.binary(max_size=70))
def test_a_hash_is_the_same_in_c(data):
    assert murmur3.hash128(data) == HASH_IN_PYTHON(data)


@given(HASHES, st.sampled_from(Instruction), TEXTS, PARTITIONS, st.sampled_from([0, 1]))
def test_subscriptions_are_written_as_in_python_and_read_again(hashed, instruction, key, partition, version):
    wrapper = SubscriptionWrapper(hashed, instruction, key, partition, version)
    data = SerdeCalls(foreign_key.SubscriptionWrapperSerde("t", Serdes.string())).serialize("t", wrapper, [])

    assert data == PYTHON.SubscriptionWrapperSerde("t", Serdes.string()).serialize("t", wrapper, [])
    found = foreign_key.SubscriptionWrapperSerde("t", Serdes.string()).deserialize("t", data, [])
    assert found == wrapper._replace(primary_partition=partition if version else None)


@given(st.binary(max_size=30) | st.tuples(st.sampled_from([0, 1, 128, 129]), st.binary(max_size=30)).map(
    lambda parts: bytes((parts[0],)) + parts[1]
))  # fmt: skip
def test_any_bytes_are_read_or_refused_as_in_python(data):
    for name in ("SubscriptionWrapperSerde", "SubscriptionResponseWrapperSerde"):
        arguments = ("t", Serdes.bytes()) if name == "SubscriptionWrapperSerde" else (Serdes.bytes(),)
        expected = outcome(getattr(PYTHON, name)(*arguments).deserialize, data)
        assert outcome(SerdeCalls(getattr(foreign_key, name)(*arguments)).deserialize, data) == expected


@given(HASHES, st.none() | st.binary(max_size=9))
def test_responses_are_written_as_in_python_and_read_again(hashed, value):
    answer = foreign_key.SubscriptionResponseWrapper(hashed, value or None, 3)
    data = SerdeCalls(foreign_key.SubscriptionResponseWrapperSerde(Serdes.bytes())).serialize("t", answer, [])

    assert data == PYTHON.SubscriptionResponseWrapperSerde(Serdes.bytes()).serialize("t", answer, [])
    found = foreign_key.SubscriptionResponseWrapperSerde(Serdes.bytes()).deserialize("t", data, [])
    assert found == answer._replace(primary_partition=None)


class _Views:
    """A serializer of a user's that returns what only has bytes."""

    def serialize(self, topic, value, headers):
        return bytearray(value)

    def deserialize(self, topic, data, headers):
        return bytes(data)


@given(st.binary(max_size=5), st.binary(max_size=5), st.booleans(), st.booleans())
def test_the_key_of_a_subscription_is_taken_apart_again(foreign, primary, foreign_views, primary_views):
    serdes = [_Views() if views else Serdes.bytes() for views in (foreign_views, primary_views)]
    schema = CombinedKeySchema("f", serdes[0], "p", serdes[1])
    data = schema.to_bytes(foreign, primary, [])

    assert data == len(foreign).to_bytes(4, "big") + foreign + primary
    assert data.startswith(schema.prefix_bytes(foreign, []))
    assert schema.from_bytes(data, []) == (foreign, primary)
