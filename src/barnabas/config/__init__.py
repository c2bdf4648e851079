"""Kafka's settings as data; parsing, checking, and what to suggest for a name that is unknown.

Rule 1. **The settings are Kafka's own**, in `<section>.json` (producer, consumer, admin, topic, broker): type, default,
range. `config_def` lists the few defaults that differ and the few settings that Kafka does not have, with the reason.
A new Kafka version: replace the JSON.

Rule 2. **`support` says of each setting what happens**: supported, ignored with a warning, or refused unless default.
To add a setting: read it where it matters, move its name to `SUPPORTED`, and say in setting_meanings.txt what it
does (docs/reference/settings.md is made from both).

Rule 3. **`Config(section, properties, keywords)`**: `config["linger.ms"]` is the parsed value; `get_int`,
`get_seconds` and the like are typed; `given`, `is_given(name)`. `ClientConfig` also demands `bootstrap.servers`, and
replaces variables first (`config_transformer`, `config_providers`).

Rule 4. **No secret is shown**: a password, and what came out of a variable (`Resolved`), has its name for a `repr`, in
errors as well.

`properties_file` reads Java's syntax; `topic_defaults` says what a broker's settings mean for topics that set nothing.
Raises `ConfigError` for everything that is wrong with a setting, naming it, its value, and what name is near.
"""
