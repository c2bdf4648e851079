"""What goes wrong in a run: kinds of faults, drawn from the seed, that come until the plan says that all are over.

Rules:
- A fault acts on the world outside of the code: network, disk, processes, clocks. It never calls into a broker or a
  client but to end or start its process.
- `heal` undoes what a fault does, but for those who are gone for good; what still goes wrong then was found.
- Each fault is noted in the history and counted; `minima.py` says how often each kind has to come in a hundred seeds.

`plan.py` draws and strikes; the kinds stand in `network_faults.py`, `broker_faults.py`, `disk_faults.py` and
`client_faults.py`. A new kind is a method and its row in `kinds()`, and a minimum.
"""
