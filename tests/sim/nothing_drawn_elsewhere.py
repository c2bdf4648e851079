"""Plays a seed where the operating system's randomness is refused: `python -m tests.sim.nothing_drawn_elsewhere 5`."""

from __future__ import annotations

import os
import random
import sys
from typing import Any

from barnabas.testing.simulator import patches
from barnabas.testing.simulator.runner import play, warm_up
from barnabas.testing.simulator.world import World

_GLOBAL = ("random", "randint", "choice", "shuffle", "uniform", "randrange", "getrandbits", "randbytes")


def refuse(*_: Any) -> Any:
    """Raise, whatever is asked for."""
    raise AssertionError("randomness that does not come from the world")


def main(seed: int) -> int:
    """Return how many violations there were."""
    warm_up()
    install, seeded = patches.install, random.Random.__init__

    def install_strictly(world: World) -> None:
        install(world)
        for name in _GLOBAL:
            setattr(random, name, refuse)
        os.urandom = refuse

        def initialize(source: random.Random, seed: Any = None) -> None:
            seeded(source, refuse() if seed is None else seed)

        random.Random.__init__ = initialize  # type: ignore[method-assign]  # this process does nothing else

    patches.install = install_strictly
    result = play(seed, keep_history=False)
    sys.stdout.write("\n".join(result.violations))
    sys.stdout.flush()
    return len(result.violations)


if __name__ == "__main__":
    # As the runner does: threads of the world never end, and whoever joins them at exit would wait for ever.
    os._exit(main(int(sys.argv[1])))
