"""Signed tokens that are refused all the same: claims that are bombs, critical headers that are not known."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import jwt
import pytest

from tests.support import token_endpoint
from tests.unit.broker.security import test_oauth_bearer_tokens

LOGINS = test_oauth_bearer_tokens.TestSignedTokens()


def signed(payload: str) -> str:
    header: dict[str, Any] = {"alg": "RS256", "kid": token_endpoint.KEY_ID}
    parts = [jwt.utils.base64url_encode(part) for part in (json.dumps(header).encode(), payload.encode())]
    signature = jwt.get_algorithm_by_name("RS256").sign(b".".join(parts), LOGINS.KEY)
    token = b".".join([*parts, jwt.utils.base64url_encode(signature)]).decode()
    assert len(token) < 64 * 1024, "a longer one is not looked at"
    return token


def claims() -> dict[str, Any]:
    found: dict[str, Any] = jwt.decode(LOGINS.token(), options={"verify_signature": False})
    return found


@pytest.mark.parametrize("claim", ["sub", "aud", "iss", "exp", "other"])
@pytest.mark.parametrize("bomb", ["[" * 20_000 + "]" * 20_000, '{"a":' * 6000 + "1" + "}" * 6000, "9" * 30_000])
def test_claims_that_are_a_bomb(tmp_path: Path, claim: str, bomb: str) -> None:
    others = json.dumps({name: value for name, value in claims().items() if name != claim})
    broker = LOGINS.broker(tmp_path)
    started = time.process_time()
    assert LOGINS.answer(broker, signed(f'{others[:-1]}, "{claim}": {bomb}}}')) != b""
    assert time.process_time() - started < 1
    assert LOGINS.answer(broker, signed(json.dumps(claims()))) == b"", "the next one is heard"


def test_a_critical_header_that_is_not_known(tmp_path: Path) -> None:
    # RFC 7515, section 4.1.11: who does not understand what is critical refuses it.
    header = {"kid": token_endpoint.KEY_ID, "crit": ["bound-to"], "bound-to": "another listener"}
    assert LOGINS.answer(LOGINS.broker(tmp_path), jwt.encode(claims(), LOGINS.KEY, "RS256", header)) != b""
