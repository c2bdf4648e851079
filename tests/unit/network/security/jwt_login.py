"""Tokens as settings ask for them, without a client: what the tests of OAUTHBEARER's retrievers share."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from barnabas.config.client_config import ClientConfig
from barnabas.network.security.oauth_bearer_login_callback_handler import token_source
from barnabas.network.security.oauth_bearer_token import OAuthBearerToken
from tests.support.token_endpoint import TokenEndpoint

PACKAGE = "org.apache.kafka.common.security.oauthbearer."
PASSPHRASE = "open, sesame"


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def change(path: Path, text: str) -> None:
    """Write a file so that the change shows, however coarse the file system's clock is."""
    before = path.stat().st_mtime_ns
    path.write_text(text, encoding="utf-8")
    os.utime(path, ns=(before + 1_000_000_000,) * 2)


def fetch(options: dict[str, str] | None = None, **settings: Any) -> OAuthBearerToken:
    """What these settings, without sasl.oauthbearer. and with underscores, come to once."""
    return source(options, **settings)()


def source(
    options: dict[str, str] | None = None,
    patience_ms: int = 20_000,
    others: dict[str, Any] | None = None,
    **settings: Any,
) -> Callable[[], OAuthBearerToken]:
    """What fetches by these settings; `options` stand in sasl.jaas.config, `others` have their whole names."""
    named = {f"sasl.oauthbearer.{name.replace('_', '.')}": value for name, value in settings.items()}
    quick = {"sasl.login.retry.backoff.ms": 1, "sasl.login.retry.backoff.max.ms": patience_ms}
    given = {"bootstrap.servers": "a:1", **quick, **(others or {}), **named}
    return token_source(ClientConfig("producer", given), options or {})


def bearer(endpoint: TokenEndpoint, key_file: Path, **more: Any) -> dict[str, Any]:
    """The JWT bearer grant as it usually is."""
    return {
        "jwt_retriever_class": "JwtBearerJwtRetriever",
        "token_endpoint_url": endpoint.url,
        "assertion_private_key_file": str(key_file),
        "assertion_claim_iss": "me",
        "assertion_claim_sub": "alice",
        "assertion_claim_aud": endpoint.url,
        **more,
    }
