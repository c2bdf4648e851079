"""Assertions, their templates and their keys: whatever stands in the files."""

from __future__ import annotations

import json
import traceback
from pathlib import Path
from typing import Any

import jwt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.network.security.cached_file import CachedFile
from barnabas.network.security.jwt_assertion import (
    AssertionTemplate,
    DefaultAssertionCreator,
    DynamicClaims,
    assertion_template,
    private_key,
)
from barnabas.network.security.oauth_bearer_token import serialized_jwt
from tests.support.token_endpoint import ec_key, pem

KEY = pem(ec_key())
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=6).map(lambda name: f"x{name}")
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.dictionaries(NAMES, VALUES, max_size=4)


def a_file(path: Path, text: str, transform: Any) -> CachedFile[Any]:
    path.write_text(text, encoding="utf-8")
    return CachedFile("setting", str(path), "shown", transform)


@settings(deadline=None)
@given(FIELDS, FIELDS, FIELDS.map(lambda fields: {name: str(value) for name, value in fields.items()}))
def test_an_assertion_says_what_its_template_says(
    tmp_path_factory: pytest.TempPathFactory, header: dict[str, Any], payload: dict[str, Any], static: dict[str, str]
) -> None:
    folder = tmp_path_factory.getbasetemp()
    key = a_file(folder / "key.pem", KEY, lambda text: private_key(text, None, "ES256"))
    text = json.dumps({"header": {**header, "alg": "none"}, "payload": {**payload, "exp": 1}}, ensure_ascii=False)
    template = a_file(folder / "template.json", text, assertion_template)
    dynamic = DynamicClaims(300, 60, True)

    creator = DefaultAssertionCreator("ES256", key, static, template, dynamic, clock=lambda: 9e8, new_id=lambda: "id")
    assertion = serialized_jwt(creator.create())

    assert jwt.get_unverified_header(assertion) == {**header, "alg": "ES256", "typ": "JWT"}
    claims = jwt.decode(assertion, key.get().public_key(), ["ES256"], options={"verify_exp": False})
    times = {"iat": 900_000_000, "exp": 900_000_300, "nbf": 899_999_940}
    assert claims == {**static, **payload, **times, "jti": "id"}


TEMPLATES = st.dictionaries(st.sampled_from(["header", "payload"]), VALUES)


@given(st.text() | VALUES.map(json.dumps) | TEMPLATES.map(json.dumps))
def test_any_text_is_a_template_or_refused(text: str) -> None:
    try:
        found = assertion_template(text)
    except ValueError:
        return
    assert isinstance(found, AssertionTemplate)
    assert json.dumps(found)


@given(
    st.text()
    | st.binary().map(lambda data: f"-----BEGIN PRIVATE KEY-----\n{data.hex()}\n-----END PRIVATE KEY-----\n")
    | st.integers(0, len(KEY)).map(lambda end: KEY[:end])
    | st.tuples(st.integers(0, len(KEY) - 1), st.characters(min_codepoint=32, max_codepoint=126)).map(
        lambda change: KEY[: change[0]] + change[1] + KEY[change[0] + 1 :]
    ),
    st.none() | st.text(min_size=1, max_size=5),
    st.sampled_from(["RS256", "ES256"]),
)
def test_any_text_is_a_key_or_refused_without_showing_it(text: str, passphrase: str | None, algorithm: str) -> None:
    try:
        private_key(text, passphrase, algorithm)
    except ValueError as problem:
        refusal = "".join(traceback.format_exception_only(problem))
        is_alone = problem.__suppress_context__ or problem.__context__ is None
    else:
        refusal, is_alone = "", algorithm == "ES256"
    assert is_alone
    assert not any(line in refusal for line in text.split("\n") if len(line) > 20)
