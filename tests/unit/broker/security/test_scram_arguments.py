"""`--add-scram`, in the form of Kafka's storage tool (KIP-900)."""

from __future__ import annotations

import pytest

from barnabas.broker.security.scram_arguments import parse_scram
from barnabas.errors import ConfigError
from barnabas.network.security import scram

SALT = b"salt of tests"
SALTED = scram.to_base64(scram.salted_password("SCRAM-SHA-256", b"a,b", SALT, 8192))


@pytest.mark.parametrize(
    "text",
    [
        f'SCRAM-SHA-256=[name=alice,password="a,b",iterations=8192,salt="{scram.to_base64(SALT)}"]',
        f"SCRAM-SHA-256=[name=alice,iterations=8192,salt={scram.to_base64(SALT)},saltedpassword={SALTED}]",
    ],
)
def test_a_password_and_what_it_comes_to_are_the_same(text: str) -> None:
    whose, credential = parse_scram(text)
    assert whose == ("alice", "SCRAM-SHA-256")
    salted = scram.salted_password("SCRAM-SHA-256", b"a,b", SALT, 8192)
    assert credential == scram.stored_credential("SCRAM-SHA-256", salted, SALT, 8192)


def test_each_user_has_a_salt_of_its_own() -> None:
    salts = {parse_scram("SCRAM-SHA-512=[name=a,password=same]")[1].salt for _ in range(3)}
    assert len(salts) == 3


@pytest.mark.parametrize(
    "text",
    [
        "alice:hunter2", "SCRAM-SHA-1=[name=a,password=hunter2]", "SCRAM-SHA-256=[password=hunter2]",
        "SCRAM-SHA-256=[name=a]", "SCRAM-SHA-256=[name=a,password=hunter2,saltedpassword=hunter2]",
        "SCRAM-SHA-256=[name=a,password=hunter2,iterations=1]", "SCRAM-SHA-256=[name=a,password=hunter2,salt=!]",
        "SCRAM-SHA-256=[name=a,saltedpassword=aGk=]", "SCRAM-SHA-256=[name=a,password=hunter2,other=1]",
        "SCRAM-SHA-256=[name=a,password=hunter2,name=b]", "",
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_told_without_the_secret(text: str) -> None:
    with pytest.raises(ConfigError, match="--add-scram") as caught:
        parse_scram(text)
    assert "hunter2" not in str(caught.value)
