"""`guarantee=exactly-once`: each micro-batch once for readers of committed records (`docs/guide/exactly-once.md`).

Rule 1. `commit_protocol` holds what a task and the driver do, also when either comes back, as generators of steps
without clock or socket; `driver_steps` and `task_writer` take the steps on a cluster,
tests/unit/spark/exactly_once/exactly_once_model.py on a broker in memory.

Rule 2. The driver writes what it decided to the decision log before the first EndTxn; a task reads the decision before
it does anything. Transactions that were open before a decision and are not named in it are its strangers: it holds
them, and after it they are aborted, also by another driver. A list made after a decision aborts nothing of
other runs.

Rule 3. A driver that comes back takes over, which fences the one before; it ends what was decided, or stops and says
which rows are in the topics and which are lost.

Rule 4. What is open is known when the coordinator of each partition of `__transaction_state` has answered as such
(`coordinator_survey`); `open_transactions` asks the cluster.
"""
