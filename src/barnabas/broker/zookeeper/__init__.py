"""A broker in a cluster whose metadata lie in ZooKeeper: a member among brokers of Apache Kafka 3.9.

`ZooKeeperControl` is the `ControlPlane` (`barnabas.broker.membership`): it registers the broker in `/brokers/ids`,
reads topics and settings, and takes the controller's requests. The names are Kafka's; behaviour follows KafkaServer,
KafkaApis, ReplicaManager.becomeLeaderOrFollower and ZkData of Apache Kafka 3.9.

Rule 1. **Nothing here knows a socket, a thread or ZooKeeper's client.** What is asked of ZooKeeper are operations
(`operations.py`), several of them a program: a generator that yields operations and is sent their results. A session
carries them out; `KazooSession` is the one that needs kazoo (`pip install barnabas[zookeeper]`), tests have a model.

Rule 2. **Roles come from the controller's requests, never from znodes.** LeaderAndIsr and StopReplica say what this
broker leads and follows, UpdateMetadata what clients are told. Znodes give what is there before the first request:
topics with their ids and assignments, and settings.

Rule 3. **One request of a controller at a time, in the order in which they came**, also where one waits for settings
of a topic that is new here. Requests of an earlier controller epoch, or for an earlier life of this broker, change
nothing.

Rule 4. **What ZooKeeper has not answered is not known.** A connection that ends may have carried an operation out. When
it is back, everything is read again, and a new session registers the broker anew, in another broker epoch.

Rule 5. **What belongs to the controller goes there as it came.** Brokers of 3.9 take no Envelope: the request is sent
on in this broker's name, after this broker has authorized its client. Settings every broker writes itself.

Rule 6. **A registered broker stands for election** (`ControllerRole`). Elected, it is the controller
(`broker/zookeeper/controller`), tells itself and others what to do over the network, and answers what is for the
controller; all other brokers of ours send that on, once.
"""
