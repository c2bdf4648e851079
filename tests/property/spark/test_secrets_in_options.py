"""No secret among the options of the format is ever shown: in no error, no repr, no line of a log, whatever its place.

A place is a name and where it stands: right or misspelt, with `kafka.` before it or not, in lower or other case, of
another client or of the broker, inside of a JAAS line, of a URL, or of an address.
"""

from __future__ import annotations

import logging
import traceback

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barnabas.config.config_def import SECTIONS, definitions
from barnabas.errors import KafkaError
from barnabas.spark.batch_reader import KafkaBatchReader
from barnabas.spark.data_source import BarnabasDataSource
from barnabas.spark.exactly_once.stream_writer import ExactlyOnceStreamWriter
from barnabas.spark.fetch_loop import _Task
from barnabas.spark.kafka_fetcher import append_all
from barnabas.spark.options import SinkOptions, SourceOptions
from barnabas.spark.sink import KafkaStreamWriter
from barnabas.spark.stream_reader import KafkaStreamReader

MARK = "hUnTeR2"
SECRETS = sorted({key.name for section in SECTIONS for key in definitions(section).keys.values() if key.is_secret})
URLS = ["sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.jwks.endpoint.url", "bootstrap.servers"]
JAAS = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="{MARK}";'
SECRET_VALUES = st.sampled_from([MARK, JAAS, JAAS.rstrip(";"), f"{MARK}\nmore", f"-----BEGIN PRIVATE KEY-----{MARK}"])
URL_VALUES = st.sampled_from([f"https://user:{MARK}@host/token", f"user:{MARK}@host:9092", f"PLAINTEXT://u:{MARK}@h:1"])


@st.composite
def misspelt(draw: st.DrawFn, names: list[str]) -> str:
    """A name with a letter left out, doubled, or exchanged for another."""
    name = draw(st.sampled_from(names))
    at = draw(st.integers(0, len(name) - 1))
    return draw(
        st.sampled_from([name[:at] + name[at + 1 :], name[:at] + name[at] + name[at:], f"{name[:at]}x{name[at:]}"])
    )


@st.composite
def places(draw: st.DrawFn) -> dict[str, str]:
    """An option that holds the secret."""
    if draw(st.booleans()):
        name, value = draw(st.one_of(st.sampled_from(SECRETS), misspelt(SECRETS))), draw(SECRET_VALUES)
    else:
        name, value = draw(st.sampled_from(URLS)), draw(URL_VALUES)
    prefix = draw(st.sampled_from(["kafka.", "", "Kafka.", "kafka_"]))
    change = draw(st.sampled_from([str, str.lower, str.upper]))
    return {change(prefix + name): value}


def shown_by(error: BaseException) -> list[str]:
    """All that somebody sees of an error: itself, what it came of, and the lines of its traceback without the code."""
    lines = traceback.TracebackException.from_exception(error, capture_locals=False).format()
    return [str(error), repr(error), *(line for line in lines if "File " not in line)]


@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    places(),
    st.sampled_from([{"subscribe": "t"}, {"assign": '{"t":[0]}'}, {}]),
    st.sampled_from([{}, {"guarantee": "exactly-once"}]),
    st.booleans(),
)
def test_no_option_that_holds_a_secret_is_shown(
    caplog: pytest.LogCaptureFixture,
    secret: dict[str, str],
    strategy: dict[str, str],
    guarantee: dict[str, str],
    streaming: bool,
) -> None:
    caplog.clear()
    caplog.set_level(logging.DEBUG)
    servers = {"kafka.bootstrap.servers": "localhost:1"}
    shown: list[str] = []
    try:
        shown.append(BarnabasDataSource({**servers, **secret, **strategy}).schema())
        source = SourceOptions({**servers, **secret, **strategy}, streaming=streaming)
        shown += [str(source.__dict__), repr(_Task(source, None, frozenset(), {}, append_all))]  # type: ignore[arg-type]
        shown += [repr(KafkaBatchReader(source)), str(KafkaStreamReader(source).__dict__)]
    except KafkaError as error:
        shown += shown_by(error)
    try:
        sink = SinkOptions({**servers, **secret, **guarantee, "topic": "t"})
        shown += [str(sink.__dict__), str(KafkaStreamWriter(sink).__dict__)]
        shown += [str(ExactlyOnceStreamWriter(sink).__dict__)]
    except KafkaError as error:
        shown += shown_by(error)
    assert len(shown) >= 2
    assert not [text for text in [*shown, *caplog.messages] if MARK.lower() in text.lower()]


@pytest.mark.parametrize("name", [*SECRETS, "sasl.pasword"])
@pytest.mark.parametrize("prefix", ["", "kafka."])
def test_the_error_for_a_misspelt_secret_says_which_name_was_meant(name: str, prefix: str) -> None:
    option = f"{prefix}{name}x"
    with pytest.raises(KafkaError, match=f"option {option}") as caught:
        SinkOptions({"kafka.bootstrap.servers": "localhost:1", option: MARK, "topic": "t"})
    assert MARK not in str(caught.value)
