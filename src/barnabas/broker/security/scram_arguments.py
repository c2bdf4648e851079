"""Users that exist before the first start, as `barnabas up --add-scram` and Kafka's storage tool name them (KIP-900).

`SCRAM-SHA-256=[name=alice,password=secret]`, with `iterations`, and `salt` and `saltedpassword` in base64 in place of
the password. They are first users only: a broker that has users is left as it is, so neither a password that was
changed nor a user who was deleted comes back with the next start.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.broker.security.scram_users import MOST_ITERATIONS
from barnabas.errors import ConfigError
from barnabas.network.security import scram
from barnabas.network.security.scram import FEWEST_ITERATIONS, StoredCredential

if TYPE_CHECKING:
    from barnabas.broker.security.scram_users import Alterations, ScramUsers

_FORM = re.compile(r"(SCRAM-SHA-256|SCRAM-SHA-512)=\[(.*)\]", re.DOTALL)
_PART = re.compile(r'\s*(\w+)=(?:"((?:[^"\\]|\\.)*)"|([^,"]*))\s*(?:,|$)')
_KNOWN = frozenset({"name", "password", "saltedpassword", "salt", "iterations"})


def parse_scram(text: str) -> tuple[tuple[str, str], StoredCredential]:
    """Return user and mechanism, and the credential. Raises ConfigError, which shows no secret."""
    found = _FORM.fullmatch(text.strip())
    parts = _parts(found.group(2)) if found else {}
    if found is None or not parts or not parts.get("name"):
        raise _problem("it must look like SCRAM-SHA-256=[name=alice,password=...]")
    mechanism = found.group(1)
    if ("password" in parts) == ("saltedpassword" in parts):
        raise _problem("one of password and saltedpassword is needed")
    iterations = parts.get("iterations", str(FEWEST_ITERATIONS))
    if not iterations.isdecimal() or not FEWEST_ITERATIONS <= int(iterations) <= MOST_ITERATIONS:
        raise _problem(f"iterations must be {FEWEST_ITERATIONS} to {MOST_ITERATIONS}")
    count = int(iterations)
    try:
        salt = scram.from_base64(parts["salt"]) if "salt" in parts else os.urandom(scram.SALT_BYTES)
        if "password" in parts:
            salted = scram.salted_password(mechanism, parts["password"].encode(), salt, count)
        elif "salt" in parts:
            salted = scram.from_base64(parts["saltedpassword"])
        else:
            raise _problem("saltedpassword needs its salt")
    except ValueError:
        raise _problem("salt and saltedpassword must be base64") from None
    return (parts["name"], mechanism), scram.stored_credential(mechanism, salted, salt, count)


def first_users(given: Alterations, users: ScramUsers, warn: Callable[[str], None]) -> Alterations:
    """Return what of `given` is to be stored: all where there is no user of SCRAM yet, otherwise nothing, and told."""
    if not given or not users.names():
        return given
    names = ", ".join(sorted({name for name, _ in given}))
    warn(
        f"--add-scram was left aside for {names}: it makes a broker's first users, and this one has some; "
        "`barnabas user` and kafka-configs add others and change passwords"
    )
    return {}


def _parts(text: str) -> dict[str, str]:
    parts: dict[str, str] = {}
    position = 0
    while position < len(text):
        found = _PART.match(text, position)
        if found is None or found.group(1) not in _KNOWN or found.group(1) in parts:
            return {}
        quoted, plain = found.group(2), found.group(3)
        parts[found.group(1)] = re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else plain
        position = found.end()
    return parts


def _problem(why: str) -> ConfigError:
    return ConfigError(f"--add-scram [hidden] is not valid: {why}")
