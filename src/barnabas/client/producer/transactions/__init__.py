"""Transactions and idempotence of the producer (KIP-98, KIP-360, KIP-447, KIP-890, KIP-939).

Rule 1: requests know nothing of the manager. A request says how it is built and what an answer to it means, as an
`Outcome`; the manager applies outcomes. What each error of each request means stands in the tables of `requests.py`.

Rule 2: one request about transactions is in flight at a time, batches go on meanwhile. EndTxn waits until every batch
has its result; requests that wait leave in the order of their priority.

Rule 3: the manager's `lock` guards state and waiting requests. Partitions, epochs and sequence numbers are the Sender
thread's alone. Lock order: the manager's, then the accumulator's. The lock is held for one change of state, never while
anything waits, and no code of the application runs under it.

Rule 4: the Sender finds the partitions to add, among those with batches (`TransactionManager.add_partitions`), so a
record costs no more in a transaction than outside.

The parts, from the bottom:

    states.py          the states, which may follow which, and the state machine; its theory of operation
    txn_partition_map.py
                       producer id, epoch and numbers of batches, with and without transactions; BatchNumbering,
                       what Sender and accumulator ask
    txn_partition_entry.py
                       one partition's numbers and batches in flight; renumbers them from 0 for a new epoch
    outcomes.py        what an answer means, as values
    requests.py        InitProducerId, AddPartitionsToTxn, ..., EndTxn: `build()` and `handle() -> Outcome`
    transactional_request_result.py
                       what a call of the application waits for
    request_queue.py   the requests that wait, the one in flight, the coordinators
    idempotence.py     IdempotenceManager: the producer without transactions; a gap raises the epoch
    transaction_manager.py
                       TransactionManager: has sequences, states and a queue; a gap fails the transaction
    request_sender.py  the part of the Sender that brings requests to their brokers
    detached.py        transactions that one process writes and another one ends

To add a request: a class in `requests.py` with its table of errors, an outcome if none fits, its line in
`TransactionManager._apply`. Tests drive all of it on virtual time (`tests/unit/client/producer/harness.py`).
"""
