"""One target under atheris, in a process of its own, which libFuzzer ends: `python -m tools.fuzz.engine TARGET ...`."""

from __future__ import annotations

import io
import logging
import os
import sys
from contextlib import redirect_stderr


def main() -> None:
    """Run a target; the arguments after its name are libFuzzer's."""
    import atheris

    # What a broker says of damaged files is of no interest here.
    logging.disable(logging.CRITICAL)
    # It names every module that it instruments.
    with redirect_stderr(io.StringIO()), atheris.instrument_imports(include=["barnabas"]):
        from tools.fuzz import target

        chosen = target(sys.argv[1])
        # What is loaded with its first use is loaded now, while it can be instrumented.
        for data in chosen.seeds()[:: len(chosen.seeds()) // 20 + 1]:
            chosen.run(data)
    # libFuzzer starts itself anew by the first argument, where it merges.
    atheris.Setup([os.environ.get("BARNABAS_FUZZ_ENGINE", sys.argv[0]), *sys.argv[2:]], chosen.run)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
