"""What holds for all settings and all texts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from barnabas.config.config_def import SECTIONS, ConfigKey, definitions
from barnabas.config.properties_file import parse_properties
from barnabas.errors import ConfigError

KEYS = st.sampled_from([key for section in SECTIONS for key in definitions(section).keys.values()])
VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.lists(st.text(), max_size=3), st.binary()
)


@given(KEYS, VALUES)
def test_a_value_is_parsed_or_refused_with_the_settings_name(key: ConfigKey, value: object) -> None:
    try:
        parsed = key.parse(value)
    except ConfigError as error:
        refused: ConfigError | None = error
    else:
        refused = None
        assert key.parse(parsed) == parsed or parsed != parsed
    assert refused is None or str(refused).startswith(f"{key.name}=")


def escape(text: str) -> str:
    """Writes a key or value the way java.util.Properties.store does."""
    special = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}
    special |= {character: f"\\{character}" for character in " =:#!"}
    return "".join(special.get(character, character) for character in text)


TEXT = st.text(st.characters(min_codepoint=1, max_codepoint=0xFFFF, exclude_categories=["Cs"]))


@given(st.dictionaries(TEXT.filter(bool), TEXT))
def test_what_java_stores_is_read_back(settings: dict[str, str]) -> None:
    text = "".join(f"{escape(key)}={escape(value)}\n" for key, value in settings.items())
    assert parse_properties("#comment\n" + text) == settings
