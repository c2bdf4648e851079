"""The transaction coordinator: transactional ids, their producers' epochs, their transactions (KIP-98, 360, 890, 939).

`TransactionCoordinator` is what handlers and the broker's loop see; it stands on the rules of `broker.coordinator`.

Rule 1. **A transactional id is a value.** Each event makes the next `TransactionMetadata`; `transaction_state.py` has
the table of what may follow what. `TransactionStateManager.write` puts the value into `__transaction_state`, then
into memory.

Rule 2. **Decisions have no side effects.** `end_transaction.py` (may this EndTxn decide?) and `init_producer_id.py`
(which epoch comes next?) are tables and functions of a value; the coordinator acts on their answers.

Rule 3. **A decision is final once it is written** (PREPARE_COMMIT, PREPARE_ABORT). `TransactionMarkerSender` then gets
a marker into every partition, however often that fails, and writes that the transaction is complete; until then the id
answers CONCURRENT_TRANSACTIONS. It sends up to 100 markers in the request itself and the rest in ticks.

Rule 4. **A marker may be answered later.** `MarkerWriter.write(marker, at, answer)` (`marker.py`) is the port:
`PartitionMarkers` answers at once for partitions of this broker; a writer for other brokers may answer in any later
turn of the loop. A marker carries the leader epoch in which its coordinator serves the id's partition.

Rule 5. **Nothing transactional reaches a partition that the coordinator does not know of**
(`add_partitions_to_txn_manager.py`): older clients are verified, the partitions of newer ones are added. What the
coordinator does not know it would never end; so records also wait until its own record of them is committed
(`verification.py`).

Rule 6. **Ids expire.** `transactional_id_expiration.py` sweeps over ids on which nothing is open; open transactions
are aborted after their time-out by the coordinator itself.

The last stable offset, aborted transactions and pending offsets are kept where the data is: in the log and in
`groups/offsets`. After a marker in `__consumer_offsets`, `PartitionMarkers` notifies the group coordinator.
"""
