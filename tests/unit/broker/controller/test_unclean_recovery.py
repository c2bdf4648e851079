"""The ends of logs are compared before one leads that may lack records (KIP-966, the second part)."""

from __future__ import annotations

from barnabas.broker.controller.quorum_controller import QuorumController
from barnabas.broker.metadata.partition_registration import RECOVERING, PartitionRegistration
from barnabas.broker.metadata.replica_log_end import ReplicaLogEnd, tell, told
from barnabas.protocol.kinds import ElectionType
from barnabas.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from barnabas.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from tests.support.controllers import WITH_ELR, Controllers

_TIMEOUT = 30.0


def without_any_eligible(*, count: int = 1, min_isr: int = 2) -> Controllers:
    """Return a partition whose three replicas have ended uncleanly, 1 as the last leader; none has told yet."""
    settings = {"unclean_recovery_timeout": _TIMEOUT, "session_timeout": 1e6}
    controllers = Controllers(count, levels=WITH_ELR, config={"min.insync.replicas": min_isr}, settings=settings)
    controllers.elect()
    for broker_id in (1, 2, 3):
        controllers.register(broker_id)
        controllers.heartbeat(broker_id, connection=broker_id)
    controllers.create("flights", [[1, 2, 3]])
    for broker_id in (3, 2, 1):
        controllers.heartbeat(broker_id, want_fence=True)
    for broker_id in (1, 2, 3):
        back(controllers, broker_id)
    return controllers


def back(controllers: Controllers, broker_id: int, life: int = 7) -> int:
    connection = 1000 * life + broker_id
    return controllers.register(broker_id, life=life, connection=connection)


def partition(controllers: Controllers) -> PartitionRegistration:
    return controllers.partition("flights")


def say(controllers: Controllers, broker_id: int, last_epoch: int, end: int, *, leader_epoch: int | None = None) -> int:
    """Have a broker tell where its log ends; return who leads then."""
    epoch = partition(controllers).leader_epoch if leader_epoch is None else leader_epoch
    ends = [ReplicaLogEnd(controllers.topic_id("flights"), 0, epoch, last_epoch, end)]
    controllers.heartbeat(broker_id, ends=ends, connection=1000)
    return partition(controllers).leader


def test_the_longest_log_leads_when_all_were_heard() -> None:
    controllers = without_any_eligible()
    assert say(controllers, 1, -1, 0) == -1, "it led last, and its log is empty"
    assert say(controllers, 2, 0, 7) == -1, "3 may have more"
    assert say(controllers, 3, 0, 9) == 3
    found = partition(controllers)
    assert (found.isr, found.last_known_elr, found.leader_recovery_state) == ((3,), (), RECOVERING)


def test_a_later_epoch_is_worth_more_than_a_longer_log() -> None:
    controllers = without_any_eligible()
    say(controllers, 1, 1, 50)
    say(controllers, 2, 2, 9)
    assert say(controllers, 3, 2, 8) == 2


def test_of_equal_logs_that_of_the_last_leader_leads() -> None:
    controllers = without_any_eligible()
    for broker_id in (3, 2):
        say(controllers, broker_id, 2, 9)
    assert say(controllers, 1, 2, 9) == 1


def test_what_an_earlier_life_told_counts_no_more() -> None:
    controllers = without_any_eligible()
    say(controllers, 1, -1, 0)
    say(controllers, 3, 2, 9)
    back(controllers, 3, life=8)
    assert say(controllers, 2, 2, 8) == -1, "3 may have lost what it told"
    assert say(controllers, 3, 2, 5) == 2


def test_what_was_told_of_an_earlier_leader_epoch_counts_not() -> None:
    controllers = without_any_eligible()
    before = partition(controllers).leader_epoch - 1
    say(controllers, 1, 2, 3)
    say(controllers, 2, 2, 4)
    assert say(controllers, 3, 2, 9, leader_epoch=before) == -1, "it may have appended and cut since"
    assert say(controllers, 3, 2, 2) == 2


def test_a_replica_that_does_not_come_is_waited_for_no_longer_than_that() -> None:
    controllers = without_any_eligible()
    say(controllers, 1, -1, 0)
    say(controllers, 2, 2, 8)
    controllers.tick(_TIMEOUT * 0.9)
    assert partition(controllers).leader == -1
    controllers.tick(_TIMEOUT * 0.3)
    assert partition(controllers).leader == 2


def test_who_led_last_is_waited_for_without_an_end() -> None:
    controllers = without_any_eligible()
    say(controllers, 2, 2, 8)
    say(controllers, 3, 2, 9)
    controllers.tick(_TIMEOUT * 5)
    assert partition(controllers).leader == -1, "as without the comparison: it may have what both lack"
    assert say(controllers, 1, 2, 1) == 3


def test_the_longest_log_is_waited_for_where_its_broker_is_fenced() -> None:
    controllers = without_any_eligible()
    say(controllers, 3, 2, 9)
    controllers.heartbeat(3, want_fence=True, ends=[], connection=1000)
    end = ReplicaLogEnd(controllers.topic_id("flights"), 0, partition(controllers).leader_epoch, 2, 9)
    controllers.heartbeat(3, want_fence=True, ends=[end], connection=1000)
    say(controllers, 1, 2, 8)
    assert say(controllers, 2, 2, 8) == -1
    assert say(controllers, 3, 2, 9) == 3


def test_where_one_replica_in_sync_is_enough_who_led_last_waits_for_no_other() -> None:
    controllers = without_any_eligible(min_isr=1)
    assert say(controllers, 2, 2, 8) == -1
    assert say(controllers, 1, 2, 7) == 2, "the others may be away for good, and are asked for no more than they have"


def test_who_led_last_waits_for_others_where_its_log_is_empty() -> None:
    controllers = without_any_eligible(min_isr=1)
    assert say(controllers, 1, -1, 0) == -1
    say(controllers, 2, 2, 8)
    assert say(controllers, 3, 2, 7) == 2


def test_a_broker_that_does_not_tell_leads_as_before() -> None:
    controllers = without_any_eligible()
    controllers.heartbeat(1, connection=1000)
    assert partition(controllers).leader == 1, "Apache Kafka's brokers tell nothing"


def test_brokers_that_do_not_tell_are_not_waited_for() -> None:
    controllers = without_any_eligible()
    controllers.heartbeat(3, connection=1000)
    say(controllers, 1, -1, 0)
    assert say(controllers, 2, 2, 8) == 2


def test_the_next_controller_hears_it_anew() -> None:
    controllers = without_any_eligible(count=2)
    say(controllers, 1, -1, 0)
    say(controllers, 3, 2, 9)
    active: QuorumController = controllers.elect(101)
    assert active.is_active
    assert say(controllers, 2, 2, 8) == -1, "this one has not heard the others"
    say(controllers, 1, -1, 0)
    assert say(controllers, 3, 2, 9) == 3


def test_an_operator_who_does_not_wait_gets_the_longest_log_that_is_known() -> None:
    controllers = without_any_eligible()
    controllers.heartbeat(3, ends=[], connection=1000)
    say(controllers, 2, 2, 8)
    controllers.done(lambda: controllers.active.managers.replication.elect_leaders(_unclean()))
    assert partition(controllers).leader == 2


def _unclean() -> ElectLeadersRequest:
    return ElectLeadersRequest(
        election_type=ElectionType.UNCLEAN, topic_partitions=[TopicPartitions("flights", [0])], timeout_ms=1000
    )


def test_what_a_heartbeat_tells_is_read_again() -> None:
    request = BrokerHeartbeatRequest()
    assert told(request) is None
    tell(request, [])
    assert told(request) == []
    ends = [ReplicaLogEnd(b"t" * 16, 2, 5, 4, 1 << 40), ReplicaLogEnd(b"u" * 16, 0, 1, -1, 0)]
    tell(request, ends)
    assert told(BrokerHeartbeatRequest.decode(request.encode(1), 1)) == ends
