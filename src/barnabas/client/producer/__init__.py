"""The producer: from `send()` to the broker's answer. `Producer` is in producer.py, for asyncio in aio/producer.py.

Rule 1: every piece of state has one owner. The deques of batches, the batches without a result and whether records are
taken (`refusal`) belong to the accumulator's lock, held for one append or one drain. Drained batches, sequences and the
`NetworkClient` belong to the Sender's thread. Lock order: the transactions', then the accumulator's, then the pool's.

Rule 2: what runs once per record is compiled, in append.py, and nowhere else. It never waits: where it cannot go on it
hands back a value, made once per batch (`SlowAppend`, `UnsentRecord`), which `ProducerCore` finishes. Compiled, an
append to an open batch runs no Python code, so the GIL makes it atomic unless another thread holds the lock.

Rule 3: calls that wait are written once, as `Steps`, in `ProducerCore` and `TransactionCalls`. How a wait is done is
`Waits`: `ThreadWaits` blocks, `aio.LoopWaits` yields what is awaited. A name that ends in `_nowait` never waits, one
that begins with `wait_` does. Time, randomness and the network come from the `Environment`; `now` is an argument.

Rule 4: no error may leave a producer that looks alive and does nothing. Arguments are checked where a call begins
(arguments.py). What a callback raises is logged; `sys.exit()` and Ctrl-C reach the application's next call
(`CallbackExit`). Memory is an `Allocation`, given back even by an interrupted call that drops it. An unexpected error
in a turn of the Sender fails the batches that no answer would reach. `tests/property/client/producer` raises an error
at every line, and hands every method every kind of wrong value.

The way of a record: `SendPath.do_send` (metadata, serializers, partition, size) -> `RecordAccumulator` (BatchQueues of
ProducerBatches, BufferPool, IncompleteBatches) -> `Sender.run_once` (BatchDrainer, InFlightBatches, NetworkClient) ->
`PartitionResponse` (judged in `Sender._complete_batch`) -> `ProducerBatch.complete` -> callbacks, then futures
(`ProduceRequestResult`, one per batch).

Ours, not Kafka's: until one batch of a partition is acknowledged under the present epoch and over the present
connection, and while one is sent again, no other new batch of it is in flight (a broker without state, for the topic is
new or a loss of power took it, takes any sequence number, so batches could be stored out of order); a split batch's
parts are at most half as large; only partitions that hold batches are looked at; when the process ends unsent records
get ten seconds.

A batch keeps no future for `on_delivery`, only what its metadata needs, packed (`DeliveryCallbacks`): beside its bytes
a batch of 16 KB takes less than 10% (`benchmarks/client_memory.py`). Transactions have a wing, `transactions`.
"""
