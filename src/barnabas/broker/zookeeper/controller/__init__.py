"""The controller of a cluster whose metadata lie in ZooKeeper, of our brokers and of Apache Kafka's 3.9.

`KafkaController` stands for election while its broker is registered. Elected, it is an `ActiveController`: a context
read from znodes, state machines of partitions and replicas, and a queue of requests to each broker. Names, states and
order are those of Apache Kafka 3.9 (kafka.controller).

Rule 1. **No clock, no socket, no ZooKeeper.** What is read and written are programs over operations
(`broker/zookeeper/operations.py`), what brokers are told are `Requester`s, time comes in through `tick`.

Rule 2. **One event at a time, each to its end** (`ControllerEventManager`): only there the context changes. Watches,
requests and responses line events up; an event reads what it goes by itself.

Rule 3. **Every write is one transaction with a check of `/controller_epoch`'s version.** A controller that was
replaced and does not know it writes nothing. Brokers refuse what it tells them, by the controller epoch.

Rule 4. **First ZooKeeper, then the context, then the brokers**: LeaderAndIsr, UpdateMetadata, StopReplica, in this
order, to each broker one after the other until it has answered or is gone.

Rule 5. **What is half done stands in ZooKeeper, and its steps may be done twice.** `ActiveController.failover` takes
up every reassignment, deletion and election from there.

Rule 6. **A reign lasts as long as its session.** What a lost connection left without an answer is carried out again
when it is back (`LastingSession`), a write only once: the znodes tell whether it was. Where they do not, or the session
is another one, the reign ends. All that is watched is read again, for watches last as long as a connection.

Rule 7. **A state is written in the version that it was decided by**, and decided again where that is another.
Leaders propose ISRs (AlterPartition); who is elected or taken out of an ISR gets another leader epoch.

Rule 8. **That a broker's process has ended is concluded from refused connections only** (`BrokerLifelines`), and only
for that life of it, by the epoch of its registration. Its znode does not bring it back; its answer does, and so does
another registration. A broker that sees the end of the controller deletes `/controller`, and stands for election.

Rule 9. **What cannot be read is left out, and reported**; an event that fails is reported, and the next one begins.
Who cannot take office leaves it to others, for a second.
"""
