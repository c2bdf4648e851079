"""The `barnabas` command.

Rule 1. **Results go to stdout, everything else to stderr**, through `output`; exit codes 0, 1 (something failed), 2
(wrong usage), and what shells give for signals.

Rule 2. **An error is one line**: what was tried, on what, what to do.

Rule 3. **Clients come from `connection`**, so `-b`, `-X`, `--config` and the environment mean the same everywhere.

To add a command: `<name>.py` with `add_parser` and `run`, and its row in `COMMANDS` of `main`. Completion and the tests
of the help find it by themselves.
"""
