"""Topics, settings, quotas, features, users, ACLs, tokens and producer ids, as the controller plans them."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from barnabas import errors
from barnabas.broker.controller.configuration_control_manager import Alteration
from barnabas.broker.controller.delegation_token_control_manager import TokenSettings
from barnabas.broker.controller.replica_placer import StripedReplicaPlacer, UsableBroker
from barnabas.broker.features import FeatureUpdate
from barnabas.broker.metadata.image_records import image_records
from barnabas.broker.metadata.metadata_delta import MetadataDelta
from barnabas.broker.metadata.metadata_image import MetadataImage
from barnabas.broker.security.acl_binding import AclBinding, AclFilter
from barnabas.protocol.messages.alter_client_quotas_request import EntityData, EntryData, OpData
from barnabas.protocol.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from barnabas.protocol.messages.create_delegation_token_request import CreateDelegationTokenRequest
from barnabas.protocol.messages.create_partitions_request import CreatePartitionsAssignment, CreatePartitionsTopic
from barnabas.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from barnabas.protocol.messages.no_op_record import NoOpRecord
from barnabas.protocol.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from tests.support.controllers import LEVELS, WITH_ELR, Controllers

SET, DELETE, APPEND, SUBTRACT = range(4)
TOPIC, BROKER = 2, 4


def ready(*brokers: int, **given: Any) -> Controllers:
    controllers = Controllers(**given)
    controllers.elect()
    controllers.start(*(brokers or (1, 2, 3)))
    return controllers


def created(controllers: Controllers, name: str, *given: Any, **more: Any) -> int:
    code: int = controllers.create(name, *given, **more).topics[0].error_code
    return code


# -- topics ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"partitions": 0}, errors.InvalidPartitionsError),
        ({"factor": 0}, errors.InvalidReplicationFactorError),
        ({"factor": 4}, errors.InvalidReplicationFactorError),
        ({"assignments": [[1], [1, 2]]}, errors.InvalidReplicaAssignmentError),
        ({"assignments": [[9]]}, errors.InvalidReplicaAssignmentError),
        ({"assignments": [[1]], "factor": 1}, errors.InvalidRequestError),
        ({"assignments": [[1]], "partitions": 1}, errors.InvalidRequestError),
        ({"configs": {"retention.ms": "x"}}, errors.InvalidConfigurationError),
        ({"configs": {"retention.ms": None}}, errors.InvalidConfigurationError),
        ({"configs": {"no.such.thing": "1"}}, errors.InvalidConfigurationError),
    ],
    ids=["0", "factor 0", "too many", "unequal", "unknown", "and factor", "and number", "value", "null", "name"],
)
def test_topics_that_cannot_be(given: dict[str, Any], problem: type[errors.KafkaError]) -> None:
    controllers = ready()
    assert created(controllers, "flights", **given) == problem.code
    assert "flights" not in controllers.active.state.image.topic_ids


def test_names_that_metrics_cannot_tell_apart_collide() -> None:
    controllers = ready()
    assert created(controllers, "a.b") == 0
    assert created(controllers, "a_b") == errors.InvalidTopicError.code
    topics = [CreatableTopic("c.d", 1, 1), CreatableTopic("c_d", 1, 1)]
    manager = controllers.active.managers.topics
    response = controllers.done(
        lambda: manager.create_topics(controllers.context(), CreateTopicsRequest(topics=topics), ())
    )
    assert [topic.error_code for topic in response.topics] == [0, errors.InvalidTopicError.code]


def test_a_name_is_free_again_when_its_topic_is_gone() -> None:
    controllers = ready()
    created(controllers, "a.b")
    manager = controllers.active.managers.topics
    topic_id = controllers.topic_id("a.b")
    outcomes = controllers.done(lambda: manager.delete_topics(controllers.context(), [topic_id, bytes(16)]))
    assert [outcome.code for outcome in outcomes.values()] == [0, errors.UnknownTopicIdError.code]
    assert created(controllers, "a_b") == 0


def test_only_so_many_partitions_in_one_request() -> None:
    controllers = ready()
    with pytest.raises(errors.PolicyViolationError):
        created(controllers, "flights", partitions=10_001, factor=1)
    assert created(controllers, "flights", partitions=9_998, factor=1) == 0


def test_a_request_that_only_asks_changes_nothing() -> None:
    controllers = ready()
    request = CreateTopicsRequest(topics=[CreatableTopic("flights", 1, 1)], validate_only=True)
    manager = controllers.active.managers.topics
    response = controllers.done(lambda: manager.create_topics(controllers.context(), request, ()))
    assert response.topics[0].error_code == 0
    assert not controllers.active.state.image.topics


def test_who_may_not_see_the_settings_is_not_told_them() -> None:
    controllers = ready()
    request = CreateTopicsRequest(topics=[CreatableTopic("flights", 1, 1)])
    manager = controllers.active.managers.topics
    result = controllers.done(lambda: manager.create_topics(controllers.context(), request, ())).topics[0]
    assert (result.topic_config_error_code, result.num_partitions, result.configs) == (
        errors.TopicAuthorizationError.code,
        -1,
        [],
    )


def test_changes_of_partitions_are_counted_against_the_quota() -> None:
    controllers = ready()
    counted: list[int] = []

    def mutate(count: int) -> None:
        counted.append(count)
        if len(counted) > 1:
            raise errors.ThrottlingQuotaExceededError

    topics = [CreatableTopic("a", 2, 1), CreatableTopic("b", 3, 1)]
    manager = controllers.active.managers.topics
    context = controllers.context(mutate=mutate)
    response = controllers.done(lambda: manager.create_topics(context, CreateTopicsRequest(topics=topics), ()))
    assert counted == [2, 3]
    assert [topic.error_code for topic in response.topics] == [0, errors.ThrottlingQuotaExceededError.code]
    assert list(controllers.active.state.image.topic_ids) == ["a"]


def test_partitions_are_added() -> None:
    controllers = ready()
    created(controllers, "flights", [[1, 2]])
    manager = controllers.active.managers.topics

    def add(count: int, replicas: list[list[int]] | None = None) -> int:
        given = None if replicas is None else [CreatePartitionsAssignment(found) for found in replicas]
        asked = [CreatePartitionsTopic("flights", count, given)]
        code: int = controllers.done(lambda: manager.create_partitions(controllers.context(), asked))[0].code
        return code

    assert add(2, [[2, 3]]) == 0
    assert controllers.partition("flights", 1).replicas == (2, 3)
    assert add(4) == 0
    assert len(controllers.partition("flights", 3).replicas) == 2
    assert add(4) == add(3) == errors.InvalidPartitionsError.code
    assert add(6, [[1, 2]]) == add(5, [[1]]) == add(5, [[1, 9]]) == errors.InvalidReplicaAssignmentError.code


def test_a_fenced_broker_gets_replicas_that_are_not_in_sync() -> None:
    controllers = ready(1, 2)
    controllers.register(3)
    assert created(controllers, "flights", [[3, 1, 2]]) == 0
    partition = controllers.partition("flights")
    assert (partition.replicas, partition.isr, partition.leader) == ((3, 1, 2), (1, 2), 1)
    assert created(controllers, "more", [[3]]) == errors.InvalidReplicaAssignmentError.code


# -- placing replicas ------------------------------------------------------------------------------------------------


def placed(count: int, factor: int, *brokers: UsableBroker, seed: int = 1) -> list[list[int]]:
    return StripedReplicaPlacer(random.Random(seed)).place(count, factor, brokers)


def test_leaders_are_spread_evenly() -> None:
    brokers = [UsableBroker(number, None, False) for number in range(5)]
    leaders = Counter(replicas[0] for replicas in placed(50, 3, *brokers))
    assert set(leaders.values()) == {10}


def test_replicas_lie_in_different_racks() -> None:
    brokers = [UsableBroker(number, f"rack-{number % 3}", False) for number in range(9)]
    for replicas in placed(60, 3, *brokers):
        assert {replica % 3 for replica in replicas} == {0, 1, 2}


def test_fenced_brokers_get_followers_only() -> None:
    brokers = [UsableBroker(number, None, number == 2) for number in range(3)]
    for replicas in placed(20, 3, *brokers):
        assert replicas[2] == 2


def test_followers_of_one_leader_vary() -> None:
    brokers = [UsableBroker(number, None, False) for number in range(6)]
    followers = {tuple(replicas[1:]) for replicas in placed(100, 3, *brokers) if replicas[0] == 0}
    assert len(followers) > 3


def test_nowhere_to_place() -> None:
    alive, fenced = UsableBroker(1, None, False), UsableBroker(2, None, True)
    for factor, brokers in ((0, [alive]), (2, [alive]), (1, [fenced]), (1, [])):
        with pytest.raises(errors.InvalidReplicationFactorError):
            placed(1, factor, *brokers)


def test_racks_of_unequal_size_still_give_every_replica_a_broker() -> None:
    brokers = [UsableBroker(1, "a", False), *(UsableBroker(number, "b", False) for number in range(2, 6))]
    for replicas in placed(40, 4, *brokers):
        assert len(set(replicas)) == 4
        assert 1 in replicas


# -- settings --------------------------------------------------------------------------------------------------------


def alter(controllers: Controllers, kind: int, whose: str, name: str, *alteration: Any) -> int:
    configs = controllers.active.managers.configs
    change = {(kind, whose): {name: Alteration(*alteration)}}
    outcomes = controllers.done(lambda: configs.incremental_alter_configs(change))
    code: int = outcomes[kind, whose].code
    return code


def test_lists_are_appended_to_and_taken_from() -> None:
    controllers = ready()
    created(controllers, "flights")
    image = lambda: controllers.active.state.image.configs.get((TOPIC, "flights"), {})  # noqa: E731
    assert alter(controllers, TOPIC, "flights", "cleanup.policy", APPEND, "compact") == 0
    assert image() == {"cleanup.policy": "delete,compact"}
    assert alter(controllers, TOPIC, "flights", "cleanup.policy", SUBTRACT, "delete") == 0
    assert image() == {"cleanup.policy": "compact"}
    assert alter(controllers, TOPIC, "flights", "retention.ms", APPEND, "1") == errors.InvalidConfigurationError.code
    assert alter(controllers, TOPIC, "flights", "cleanup.policy", DELETE, None) == 0
    assert image() == {}


def test_the_same_value_is_written_for_brokers_only() -> None:
    controllers = ready()
    created(controllers, "flights", configs={"retention.ms": "5"})
    before = len(controllers.quorum.records())
    alter(controllers, TOPIC, "flights", "retention.ms", SET, "5")
    assert len(controllers.quorum.records()) == before
    alter(controllers, BROKER, "1", "log.retention.ms", SET, "5")
    alter(controllers, BROKER, "1", "log.retention.ms", SET, "5")
    assert len(controllers.quorum.records()) == before + 2, "a broker reads its files again"


def test_settings_of_what_is_not_there() -> None:
    controllers = ready()
    assert alter(controllers, TOPIC, "nowhere", "retention.ms", SET, "5") == errors.UnknownTopicOrPartitionError.code
    assert alter(controllers, BROKER, "9", "log.retention.ms", SET, "5") == errors.BrokerIdNotRegisteredError.code
    assert alter(controllers, BROKER, "x", "log.retention.ms", SET, "5") == errors.InvalidRequestError.code
    assert alter(controllers, 99, "x", "a", SET, "5") == errors.InvalidRequestError.code


def test_a_brokers_setting_that_does_not_parse_is_refused() -> None:
    controllers = ready()
    code = alter(controllers, BROKER, "", "min.insync.replicas", SET, "many")
    assert code == errors.InvalidConfigurationError.code


def test_alter_configs_deletes_what_it_does_not_name() -> None:
    controllers = ready()
    created(controllers, "flights", configs={"retention.ms": "5", "segment.bytes": "2000000"})
    configs = controllers.active.managers.configs
    wanted = {(TOPIC, "flights"): {"retention.ms": "6"}}
    controllers.done(lambda: configs.legacy_alter_configs(wanted))
    assert controllers.active.state.image.configs[TOPIC, "flights"] == {"retention.ms": "6"}


def test_with_elr_the_minimum_is_one_for_all_brokers() -> None:
    controllers = ready(levels=WITH_ELR)
    name = "min.insync.replicas"
    invalid = errors.InvalidConfigurationError.code
    assert alter(controllers, BROKER, "1", name, SET, "2") == invalid
    assert alter(controllers, BROKER, "", name, DELETE, None) == invalid
    assert alter(controllers, BROKER, "", name, SET, "2") == 0


def test_a_topics_setting_is_looked_for_in_order() -> None:
    controllers = ready(config={"log.retention.hours": 2})
    created(controllers, "flights")
    schema = controllers.active.managers.schema
    assert schema.topic_config("retention.ms", {}).value == str(2 * 3_600_000)
    alter(controllers, BROKER, "", "log.retention.minutes", SET, "3")
    assert schema.topic_config("retention.ms", {}).value == str(3 * 60_000)
    assert schema.topic_config("retention.ms", {"retention.ms": "7"}).value == "7"


def test_cordoned_directories_are_changed_by_their_broker() -> None:
    controllers = ready()
    assert alter(controllers, BROKER, "1", "cordoned.log.dirs", SET, "/a") == errors.InvalidConfigurationError.code


# -- features --------------------------------------------------------------------------------------------------------


def update(controllers: Controllers, *updates: FeatureUpdate) -> None:
    controllers.given(controllers.active.update_features(updates, validate_only=False))


@pytest.mark.parametrize(
    "change",
    [
        FeatureUpdate("metadata.version", 31, 1),
        FeatureUpdate("metadata.version", 29, 1),
        FeatureUpdate("metadata.version", 29, 2),
        FeatureUpdate("metadata.version", 29, 3),
        FeatureUpdate("group.version", -1, 2),
        FeatureUpdate("group.version", 1, 2),
        FeatureUpdate("no.such.feature", 1, 1),
        FeatureUpdate("group.version", 0, 7),
        FeatureUpdate("share.version", 2, 1),
        FeatureUpdate("kraft.version", 0, 2),
    ],
    ids=lambda change: f"{change.name} {change.level} {change.kind}",
)
def test_levels_that_cannot_be(change: FeatureUpdate) -> None:
    controllers = ready(levels={**LEVELS, "group.version": 0})
    with pytest.raises(errors.InvalidUpdateVersionError):
        update(controllers, change)


def test_levels_go_up_and_down_where_nothing_is_lost() -> None:
    controllers = ready(levels={**LEVELS, "metadata.version": 26})
    update(controllers, FeatureUpdate("metadata.version", 29, 1), FeatureUpdate("group.version", 0, 2))
    update(controllers, FeatureUpdate("metadata.version", 24, 2))
    assert controllers.active.state.image.features == {"metadata.version": 24, "transaction.version": 2}


def test_the_quorum_writes_its_level_ahead_of_the_record_that_is_waited_for() -> None:
    controllers = ready()
    controllers.quorum.kraft_version = 0
    end = controllers.quorum.end
    update(controllers, FeatureUpdate("kraft.version", 1, 1))
    assert controllers.quorum.kraft_version == 1
    assert [(batch.base_offset - end, len(batch.values)) for batch in controllers.quorum.log[-2:]] == [(0, 0), (2, 1)]
    assert isinstance(controllers.quorum.records()[-1], NoOpRecord)


@pytest.mark.parametrize("wrong", [FeatureUpdate("group.version", 7, 1), FeatureUpdate("kraft.version", 1, 1)])
def test_the_quorum_keeps_its_level_where_one_of_several_levels_cannot_be(wrong: FeatureUpdate) -> None:
    controllers = ready()
    controllers.quorum.kraft_version = 0
    if wrong.name == "kraft.version":
        controllers.quorum.refused_level = 1
    end = controllers.quorum.end
    with pytest.raises(errors.InvalidUpdateVersionError):
        update(controllers, FeatureUpdate("kraft.version", 1, 1), wrong)
    assert controllers.quorum.kraft_version == 0
    assert controllers.quorum.end == end


def test_validating_another_level_of_the_quorum_writes_nothing() -> None:
    controllers = ready()
    controllers.quorum.kraft_version = 0
    end = controllers.quorum.end
    change = FeatureUpdate("kraft.version", 1, 1)
    controllers.given(controllers.active.update_features([change], validate_only=True))
    assert controllers.quorum.end == end


def test_elr_needs_a_metadata_version_that_has_it() -> None:
    controllers = ready(levels={"metadata.version": 22})
    with pytest.raises(errors.InvalidUpdateVersionError):
        update(controllers, FeatureUpdate("eligible.leader.replicas.version", 1, 1))


def test_elr_begins_with_one_minimum_for_all_brokers() -> None:
    controllers = ready(config={"min.insync.replicas": 2})
    alter(controllers, BROKER, "1", "min.insync.replicas", SET, "3")
    update(controllers, FeatureUpdate("eligible.leader.replicas.version", 1, 1))
    configs = controllers.active.state.image.configs
    assert configs == {(BROKER, ""): {"min.insync.replicas": "2"}}


# -- quotas, users, ACLs, tokens, producer ids -----------------------------------------------------------------------


def test_quotas() -> None:
    controllers = ready()
    quotas = controllers.active.managers.quotas

    def alter_quota(key: str, value: float, *, remove: bool = False, **entity: str | None) -> int:
        parts = [EntityData(kind.replace("_", "-"), name) for kind, name in entity.items()]
        entry = EntryData(parts, [OpData(key, value, remove)])
        code: int = controllers.done(lambda: quotas.alter_client_quotas([entry]))[0].code
        return code

    assert alter_quota("producer_byte_rate", 5.0, user="alice", client_id=None) == 0
    entity = frozenset((("user", "alice"), ("client-id", None)))
    assert controllers.active.state.image.client_quotas == {entity: {"producer_byte_rate": 5.0}}
    before = len(controllers.quorum.records())
    assert alter_quota("producer_byte_rate", 5.0, user="alice", client_id=None) == 0
    assert alter_quota("consumer_byte_rate", 0.0, remove=True, user="alice", client_id=None) == 0
    assert len(controllers.quorum.records()) == before
    invalid = errors.InvalidRequestError.code
    assert alter_quota("producer_byte_rate", 0.5, user="alice") == invalid
    assert alter_quota("producer_byte_rate", -1.0, user="alice") == invalid
    assert alter_quota("connection_creation_rate", 5.0, user="alice") == invalid
    assert alter_quota("producer_byte_rate", 5.0, user="") == invalid
    assert alter_quota("producer_byte_rate", 5.0, ip="1.2.3.4", user="alice") == invalid
    assert alter_quota("producer_byte_rate", 5.0) == invalid
    assert alter_quota("producer_byte_rate", 0.0, remove=True, user="alice", client_id=None) == 0
    assert controllers.active.state.image.client_quotas == {}


def test_users_of_scram() -> None:
    controllers = ready()
    scram = controllers.active.managers.scram

    def alter_users(*asked: ScramCredentialDeletion | ScramCredentialUpsertion) -> dict[str, int]:
        deletions = [one for one in asked if isinstance(one, ScramCredentialDeletion)]
        upsertions = [one for one in asked if isinstance(one, ScramCredentialUpsertion)]
        request = AlterUserScramCredentialsRequest(deletions, upsertions)
        outcomes = controllers.done(lambda: scram.alter_credentials(request))
        return {name: outcome.code for name, outcome in outcomes.items()}

    assert alter_users(ScramCredentialUpsertion("alice", 1, 4096, b"salt", b"salted")) == {"alice": 0}
    kept = controllers.active.state.image.scram_credentials["alice", 1]
    assert (kept.iterations, len(kept.stored_key), kept.stored_key != b"salted") == (4096, 32, True)
    assert alter_users(
        ScramCredentialUpsertion("few", 1, 1, b"s", b"p"),
        ScramCredentialUpsertion("many", 1, 99_999, b"s", b"p"),
        ScramCredentialUpsertion("", 1, 4096, b"s", b"p"),
        ScramCredentialUpsertion("none", 9, 4096, b"s", b"p"),
        ScramCredentialDeletion("bob", 1),
        ScramCredentialDeletion("alice", 2),
        ScramCredentialUpsertion("twice", 1, 4096, b"s", b"p"),
        ScramCredentialDeletion("twice", 1),
    ) == {
        "few": errors.UnacceptableCredentialError.code,
        "many": errors.UnacceptableCredentialError.code,
        "": errors.UnacceptableCredentialError.code,
        "none": errors.UnsupportedSaslMechanismError.code,
        "bob": errors.ResourceNotFoundError.code,
        "alice": errors.ResourceNotFoundError.code,
        "twice": errors.DuplicateResourceError.code,
    }
    assert alter_users(ScramCredentialDeletion("alice", 1)) == {"alice": 0}
    assert controllers.active.state.image.scram_credentials == {}


def test_acls() -> None:
    controllers = ready()
    acls = controllers.active.managers.acls
    acl = AclBinding(2, "flights", 3, "User:alice", "*", 3, 3)
    wrong = acl._replace(principal="alice")
    outcomes = controllers.done(lambda: acls.create_acls([acl, acl, wrong]))
    assert [outcome.code for outcome in outcomes] == [0, 0, errors.InvalidRequestError.code]
    assert len(controllers.active.state.image.acls) == 1
    controllers.done(lambda: acls.create_acls([acl]))
    assert len(controllers.active.state.image.acls) == 1
    every = AclFilter(1, None, 1, None, None, 1, 1)
    results = controllers.done(lambda: acls.delete_acls([every, every, every._replace(operation=0)]))
    assert [list(result.deleted) for result in results] == [[acl], [acl], []]
    assert results[2].outcome.code == errors.InvalidRequestError.code
    assert controllers.active.state.image.acls == {}


def test_delegation_tokens() -> None:
    controllers = ready(settings={"tokens": TokenSettings("secret", 10_000, 5_000)})
    tokens = controllers.active.managers.tokens
    alice, bob = controllers.context(principal="User:alice"), controllers.context(principal="User:bob")
    made = controllers.done(lambda: tokens.create(alice, CreateDelegationTokenRequest()))
    now = controllers.instant().now_ms
    assert (made.max_timestamp_ms - now, made.expiry_timestamp_ms - now) == (10_000, 5_000)
    refused = controllers.done(lambda: tokens.renew(bob, RenewDelegationTokenRequest(made.hmac, -1)))
    assert refused.error_code == errors.DelegationTokenOwnerMismatchError.code
    unknown = controllers.done(lambda: tokens.renew(alice, RenewDelegationTokenRequest(b"x", -1)))
    assert unknown.error_code == errors.DelegationTokenNotFoundError.code
    controllers.now += 4
    later = controllers.context(principal="User:alice")
    renewed = controllers.done(lambda: tokens.renew(later, RenewDelegationTokenRequest(made.hmac, -1)))
    assert renewed.expiry_timestamp_ms - now == 9_000
    controllers.now += 7
    controllers.done(lambda: tokens.sweep_expired(controllers.instant().now_ms))
    assert controllers.active.state.image.delegation_tokens == {}


def test_a_delegation_token_ends_when_its_owner_says_so() -> None:
    controllers = ready(settings={"tokens": TokenSettings("secret", 10_000, 5_000)})
    tokens = controllers.active.managers.tokens
    alice = controllers.context(principal="User:alice")
    made = controllers.done(lambda: tokens.create(alice, CreateDelegationTokenRequest()))
    controllers.done(lambda: tokens.expire(alice, ExpireDelegationTokenRequest(made.hmac, -1)))
    assert controllers.active.state.image.delegation_tokens == {}


def test_without_a_secret_there_are_no_tokens() -> None:
    controllers = ready()
    tokens = controllers.active.managers.tokens
    made = controllers.done(lambda: tokens.create(controllers.context(), CreateDelegationTokenRequest()))
    assert made.error_code == errors.DelegationTokenDisabledError.code


def test_each_block_of_producer_ids_is_given_once() -> None:
    controllers = ready()
    manager = controllers.active.managers.producer_ids
    epoch = controllers.active.state.image.brokers[1].epoch
    blocks = [controllers.done(lambda: manager.generate_next_block(1, epoch)) for _ in range(3)]
    assert blocks == [(0, 1000), (1000, 1000), (2000, 1000)]
    with pytest.raises(errors.StaleBrokerEpochError):
        controllers.done(lambda: manager.generate_next_block(1, epoch - 1))


# -- snapshots -------------------------------------------------------------------------------------------------------


def test_an_image_is_made_again_of_its_own_records() -> None:
    controllers = ready(levels=WITH_ELR, settings={"tokens": TokenSettings("secret")})
    created(controllers, "flights", [[1, 2, 3]], configs={"retention.ms": "5"})
    controllers.heartbeat(1, cordoned_log_dirs=[])
    managers = controllers.active.managers
    context = controllers.context(principal="User:alice")
    controllers.done(lambda: managers.tokens.create(context, CreateDelegationTokenRequest()))
    controllers.done(lambda: managers.acls.create_acls([AclBinding(2, "flights", 3, "User:alice", "*", 3, 3)]))
    upsertion = ScramCredentialUpsertion("alice", 1, 4096, b"salt", b"salted")
    controllers.done(lambda: managers.scram.alter_credentials(AlterUserScramCredentialsRequest(upsertions=[upsertion])))
    epoch = controllers.active.state.image.brokers[1].epoch
    controllers.done(lambda: managers.producer_ids.generate_next_block(1, epoch))
    image = controllers.active.committed_image
    delta = MetadataDelta(MetadataImage())
    for record, version in image_records(image):
        delta.replay(type(record).decode(record.encode(version), version))
    assert delta.apply(image.offset, image.epoch) == image
