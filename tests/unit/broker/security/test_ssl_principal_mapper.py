"""`ssl.principal.mapping.rules`, by the examples of Kafka's documentation and its own tests."""

from __future__ import annotations

import pytest

from barnabas.broker.security.ssl_principal_mapper import SslPrincipalMapper
from barnabas.errors import ConfigError

DOCUMENTED = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/, "
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L, "
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L, DEFAULT"
)


@pytest.mark.parametrize(
    ("rules", "name", "principal"),
    [
        ("", "CN=a,OU=b", "CN=a,OU=b"),
        (DOCUMENTED, "CN=Duke,OU=ServiceUsers,O=Org,C=US", "Duke"),
        (DOCUMENTED, "CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        (DOCUMENTED, "cn=zhang,OU=SME,O=mycp", "zhang"),
        (DOCUMENTED, "OU=JavaSoft,O=Sun Microsystems", "OU=JavaSoft,O=Sun Microsystems"),
        (r"RULE:^CN=((\\, *|\w)+)(,.*|$)/$1/,DEFAULT", r"CN=Tkac\, Adam,OU=ITZ", r"Tkac\, Adam"),
        (r"RULE:^CN=(.*?),.*$/\/$1\/x/U", "CN=a,O=b", "/A/X"),
        ("RULE:^CN=(.*)$/$1@$4/", "CN=a", "a@$4"),
        ("RULE:^CN=(.*)$/$12/", "CN=a", "a2"),
        ("RULE:^CN=(.*)$/$0/", "CN=a", "CN=a"),
        ("RULE:.*/x/", "CN=a", "xx"),
    ],
)
def test_the_first_rule_that_matches_gives_the_name(rules: str, name: str, principal: str) -> None:
    assert SslPrincipalMapper(rules).name(name) == principal


def test_where_none_matches_nobody_is_let_in() -> None:
    with pytest.raises(ValueError, match=r"no rule of ssl\.principal\.mapping\.rules"):
        SslPrincipalMapper("RULE:^CN=x$/x/").name("CN=a")
    with pytest.raises(ValueError, match="2048 characters"):
        SslPrincipalMapper("DEFAULT").name("x" * 2048)


@pytest.mark.parametrize("rules", ["deafult", "RULE:", "RULE:a/b", "RULE:(/b/", "RULE:a/b/X", "DEFAULT RULE:a/b/"])
def test_rules_that_cannot_be_read(rules: str) -> None:
    with pytest.raises(ConfigError, match=r"ssl\.principal\.mapping\.rules"):
        SslPrincipalMapper(rules)
