"""What a person logs in with, and the clients' settings that it becomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from barnabas.errors import ConfigError, IllegalArgumentError, SaslAuthenticationError
from barnabas.network.security.oauth_bearer_token import token_from_jwt

if TYPE_CHECKING:
    from barnabas.console.answers import Body

#: What can be logged in by, the strongest first.
MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN", "OAUTHBEARER")
_LONGEST_NAME = 256
_LONGEST_SECRET = 16 * 1024
#: Settings that say who a client is: with a login they are the person's alone.
_OF_PERSON = (
    "sasl.jaas.config", "sasl.username", "sasl.password", "sasl.login.callback.handler.class",
    "sasl.oauthbearer.client.credentials.client.id", "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.jwt.retriever.class",
)  # fmt: skip


class Credentials:
    """Who says to be `user`, and the secret that shows it, which is in no text of this object."""

    def __init__(self, mechanism: str, user: str, secret: str) -> None:
        self.user = user
        self._mechanism = mechanism
        self._secret = secret

    @classmethod
    def of(cls, body: Body, offered: Sequence[str]) -> Credentials:
        """Read them from a request. Raises `IllegalArgumentError`, which says nothing of the secret."""
        mechanism = body.text("mechanism")
        if mechanism not in offered:
            raise IllegalArgumentError(f"mechanism must be one of {', '.join(offered)}")
        secret = body.text("password")
        if not secret or len(secret) > _LONGEST_SECRET:
            raise IllegalArgumentError(f"password must be a text of 1 to {_LONGEST_SECRET} characters")
        user = _subject(secret.strip()) if mechanism == "OAUTHBEARER" else body.text("user")
        if not user or len(user) > _LONGEST_NAME or not user.isprintable():
            raise IllegalArgumentError(f"user must be a text of 1 to {_LONGEST_NAME} characters that can be seen")
        return cls(mechanism, user, secret.strip() if mechanism == "OAUTHBEARER" else secret)

    def settings(self, clients: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
        """Return the settings of each section, with which a client is this person."""
        if self._mechanism == "OAUTHBEARER":
            secret = self._secret
            own: dict[str, Any] = {"sasl.login.callback.handler.class": lambda: secret}
        else:
            own = {"sasl.username": self.user, "sasl.password": self._secret}
        own["sasl.mechanism"] = self._mechanism
        return {section: {**settings, **own} for section, settings in clients.items()}


def _subject(token: str) -> str:
    """Return whom a token says it is for; the cluster decides whether that is so."""
    try:
        return token_from_jwt(token).principal
    except SaslAuthenticationError:
        raise IllegalArgumentError("this is no token (JWT) with a subject and an expiry") from None


def check_leaves_open_who(settings: Mapping[str, Any]) -> None:
    """Check that settings of a client leave open who it is, and that it has to say so. Raises `ConfigError`."""
    protocol = str(settings.get("security.protocol", "PLAINTEXT")).upper()
    if not protocol.startswith("SASL_"):
        raise ConfigError(
            f"--login: people log in by SASL, but security.protocol is {protocol}: "
            "give -X security.protocol=SASL_SSL (or SASL_PLAINTEXT), or a --config that has it"
        )
    given = sorted(name for name in _OF_PERSON if settings.get(name) is not None)
    if given:
        raise ConfigError(f"--login: each person logs in with a password of their own; take out {', '.join(given)}")


def offered_here(offered: Sequence[str], pinned: str | None) -> tuple[str, ...]:
    """Return by what people may log in: what the cluster offers and the console knows, or `pinned` of it.

    Raises `ConfigError` where that is nothing.
    """
    wanted = MECHANISMS if pinned is None else (pinned.upper(),)
    found = tuple(one for one in MECHANISMS if one in offered and one in wanted)
    if not found:
        raise ConfigError(
            f"--login: the cluster offers {', '.join(offered) or 'no mechanism'}, of which the console can log in by "
            f"none of {', '.join(wanted)}"
        )
    return found
