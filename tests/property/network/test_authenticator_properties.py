"""Whatever a broker says, the client authenticates, goes on asking, or ends with an authentication error."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from barnabas.errors import AuthenticationError, SaslAuthenticationError
from barnabas.network.security.jaas_config import parse_jaas_config
from barnabas.network.security.oauth_bearer_sasl_client import OAuthBearerSaslClient
from barnabas.network.security.oauth_bearer_token import OAuthBearerToken, token_from_jwt
from barnabas.network.security.sasl_client import PlainSaslClient, SaslClient, Work
from barnabas.network.security.sasl_client_authenticator import SaslClientAuthenticator
from barnabas.network.security.scram_sasl_client import ScramSaslClient
from barnabas.protocol.framing import encode_response
from barnabas.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse
from barnabas.protocol.messages.sasl_handshake_response import SaslHandshakeResponse
from tests.support.network_fakes import all_api_versions


class Zero:
    def random(self) -> float:
        return 0.0


CLIENTS = {
    "PLAIN": lambda: PlainSaslClient("alice", "hunter2"),
    "SCRAM": lambda: ScramSaslClient("SCRAM-SHA-256", "alice", "hunter2", "nonce"),
    "OAUTHBEARER": lambda: OAuthBearerSaslClient(lambda: OAuthBearerToken("hunter2")),
}
CHALLENGES = st.one_of(
    st.just(b""),
    st.binary(max_size=40),
    st.text(max_size=20).map(lambda text: f"r=nonce{text},s=c2FsdA==,i=4096".encode()),
    st.text(max_size=20).map(lambda text: f"v={text}".encode()),
)
MESSAGES = st.one_of(
    st.just(all_api_versions()),
    st.builds(SaslHandshakeResponse, error_code=st.sampled_from([0, 0, 33, 34, 77]), mechanisms=st.just(["X"])),
    st.builds(
        SaslAuthenticateResponse,
        error_code=st.sampled_from([0, 0, 0, 58, 34, -1]),
        error_message=st.one_of(st.none(), st.text(max_size=10)),
        auth_bytes=CHALLENGES,
        session_lifetime_ms=st.integers(-1, 2**40),
    ),
)


@given(st.sampled_from(sorted(CLIENTS)), st.lists(st.one_of(MESSAGES, st.binary(max_size=30)), max_size=8))
def test_a_broker_can_only_accept_refuse_or_be_refused(name: str, said: list[object]) -> None:
    new: SaslClient = CLIENTS[name]()  # type: ignore[assignment]  # each of them is one
    authenticator = SaslClientAuthenticator(lambda: new, "me", "broker:1", ("barnabas", "1"), Zero())
    step = authenticator.start()
    try:
        for answer in said:
            if isinstance(step, Work):
                step = authenticator.worked(step.run())
            if step is None:
                break
            header = step[4:12]
            version, correlation_id = int.from_bytes(header[2:4], "big"), int.from_bytes(header[4:8], "big")
            frame = answer if isinstance(answer, bytes) else _encode(answer, version, correlation_id)
            step = authenticator.received(frame, 1.0)
    except AuthenticationError as error:
        refusal = str(error)
    else:
        refusal = ""
    assert "hunter2" not in refusal
    assert authenticator.is_complete == (step is None and not refusal)
    if name == "SCRAM":
        assert not authenticator.is_complete, "nobody guesses the signature"


def _encode(message: object, version: int, correlation_id: int) -> bytes:
    highest = message.VALID_VERSIONS[1]  # type: ignore[attr-defined]  # a message
    parts = encode_response(message, min(version, highest), correlation_id)  # type: ignore[arg-type]  # a message
    return b"".join(bytes(part) for part in parts)[4:]


@given(st.text())
def test_any_text_is_a_jwt_or_refused(text: str) -> None:
    try:
        token_from_jwt(text)
    except SaslAuthenticationError:
        return


@given(
    st.dictionaries(
        st.from_regex(r"[A-Za-z_]{1,8}", fullmatch=True), st.text(st.characters(exclude_categories=["Cs"])), max_size=4
    )
)
def test_options_written_in_quotes_are_read_back(options: dict[str, str]) -> None:
    def quoted(value: str) -> str:
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'

    text = "a.b.Module required " + " ".join(f"{name}={quoted(value)}" for name, value in options.items()) + ";"
    assert parse_jaas_config(text).options == options
