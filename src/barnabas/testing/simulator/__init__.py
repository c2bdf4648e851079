"""A broker and its clients in one process on virtual time, with faults drawn from a seed.

Rule 1. **The same seed gives the same run**, byte for byte. So nothing in broker or client may depend on the order of
memory addresses (a set of objects) or on a clock, a thread or randomness of its own.

Rule 2. **Real code, another world.** `World` is virtual time and threads that take turns (greenlets); `patches` puts
them in the place of threads, clients get time, randomness and network by `environment=`; `Network`, `SimulatedBroker`
and its disk are the rest of the world.

Rule 3. **What is claimed is held against the logs.** A `Scenario` draws applications and faults from the seed; an
`Application` lives in one process after the other, each an `Actor` with real clients, for threads or event loops, and
tells the `Ledger`; `Audit` compares. `runner` forks a process for each seed; `mutations` plants faults that have to be
found, `minima` demands that enough happened.

What is simulated, and what must hold: docs/internals/simulator.md.
"""
