"""Reads `sasl.jaas.config`: a login module and its options, where Kafka keeps a client's user and password.

Syntax: javax.security.auth.login.Configuration, `Module flag name=value name="value" ...;`, one module only.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from barnabas.errors import ConfigError

#: The mechanisms of SASL that there are, and the login module that goes with each.
LOGIN_MODULES = {
    "PLAIN": "PlainLoginModule",
    "SCRAM-SHA-256": "ScramLoginModule",
    "SCRAM-SHA-512": "ScramLoginModule",
    "OAUTHBEARER": "OAuthBearerLoginModule",
}
_SETTING = "sasl.jaas.config"
_FLAGS = frozenset({"required", "requisite", "sufficient", "optional"})
_TOKEN = re.compile(
    r"""\s+ | //[^\n]* | /\*.*?\*/ | (?P<quoted>"(?:[^"\\]|\\.)*") | (?P<mark>[=;]) | (?P<word>[^\s=;"]+)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


class LoginModule(NamedTuple):
    """A module's class name, without its package, and its options."""

    name: str
    options: dict[str, str]

    def __repr__(self) -> str:
        return f"LoginModule({self.name}, options {', '.join(sorted(self.options))})"


def parse_jaas_config(text: str) -> LoginModule:
    """Return the one login module of a setting.

    Raises `ConfigError` when the text does not parse; its content, which holds secrets, is not shown.

    """
    tokens = _tokens(text)
    if len(tokens) < 3 or tokens[0][0] != "word" or tokens[1][1].lower() not in _FLAGS:
        raise _problem("it must begin with a login module's class name and 'required'")
    if tokens[-1] != ("mark", ";"):
        raise _problem("it must end with a semicolon")
    module = tokens[0][1].rpartition(".")[2]
    options: dict[str, str] = {}
    rest = tokens[2:-1]
    for index in range(0, len(rest), 3):
        part = rest[index : index + 3]
        if len(part) < 3 or part[0][0] == "mark" or part[1] != ("mark", "=") or part[2][0] == "mark":
            raise _problem(f'option {index // 3 + 1} of {module} is not of the form name="value"')
        options[part[0][1]] = part[2][1]
    return LoginModule(module, options)


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise _problem("a quotation mark is not closed")
        position = match.end()
        if match.lastgroup == "quoted":
            tokens.append(("quoted", _unescape(match.group()[1:-1])))
        elif match.lastgroup is not None:
            tokens.append((match.lastgroup, match.group()))
    return tokens


def _unescape(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found.group(1), found.group(1)), text, flags=re.DOTALL)


def _problem(what: str) -> ConfigError:
    return ConfigError(
        f"{_SETTING}=[hidden] is not valid: {what}, as in: org.apache.kafka.common.security.plain.PlainLoginModule "
        'required username="..." password="...";'
    )
