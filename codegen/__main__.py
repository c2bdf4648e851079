"""The command: see the package's docstring."""

from __future__ import annotations

import sys
from pathlib import Path

from codegen import errors, handlers, messages, schema, settings

PACKAGE = schema.ROOT / "src" / "barnabas"
MESSAGES = PACKAGE / "protocol" / "messages"


def generated() -> dict[Path, str]:
    """Return the text of every generated file."""
    all_messages = schema.read_messages()
    files = {MESSAGES / f"{message.module}.py": messages.write(message) for message in all_messages}
    files[MESSAGES / "__init__.py"] = (
        f'"""One module per message, named as the message in snake case."""\n{messages.MARK}'
    )
    files[PACKAGE / "protocol" / "api_keys.py"] = messages.write_api_keys(all_messages)
    files[handlers.HANDLERS / "served_apis.py"] = handlers.write()
    files[settings.CONFIG / "typed_settings.py"] = settings.write()
    files[PACKAGE / "errors.py"] = errors.write(schema.read_errors())
    return files


def stale(files: dict[Path, str]) -> list[Path]:
    """Return the files that are missing or differ, and those in the messages' directory that nothing generates."""
    wrong = [path for path, text in files.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    return sorted(wrong + [path for path in MESSAGES.glob("*.py") if path not in files])


def main(arguments: list[str]) -> int:
    """Write what is stale, or with `--check` only name it."""
    if arguments not in ([], ["--check"]):
        print("usage: python -m codegen [--check]", file=sys.stderr)
        return 2
    files = generated()
    wrong = stale(files)
    for path in wrong:
        if arguments:
            print(f"{path.relative_to(schema.ROOT)} is stale: run `python -m codegen`", file=sys.stderr)
        elif path in files:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(files[path], encoding="utf-8")
        else:
            path.unlink()
    return 1 if arguments and wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
