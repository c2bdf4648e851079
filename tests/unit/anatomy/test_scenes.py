"""What each scene shows of a few events, and that a scene is a pure reducer of what a whole run tells."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from barnabas import anatomy
from barnabas.anatomy import events as e
from barnabas.anatomy import recording
from barnabas.anatomy.events import EVENTS, Event
from barnabas.anatomy.film import KEYFRAME_STEPS, Film, subjects
from barnabas.anatomy.picture import MOST_BOXES, Box, Picture, as_json, lane
from barnabas.anatomy.recorder import Recorder
from barnabas.anatomy.scenes import SCENES
from barnabas.client.producer.partitioner import BuiltInPartitioner
from barnabas.errors import IllegalArgumentError
from tests.support.core_controller import CoreController
from tests.support.replicated_cluster import ReplicatedCluster
from tests.unit.client.producer.harness import TOPIC
from tests.unit.client.producer.test_partitioner import cluster as cluster_of
from tests.unit.spark.test_kafka_fetcher import Consumer, encoded, fetcher_of


def play(scene: str, subject: str, *told: Event) -> Picture:
    playing = SCENES[scene](subject)
    for event in told:
        assert playing.apply(event), event
    return playing.picture()


def boxes(picture: Picture, title: str, **of: str | int) -> list[tuple[str, str]]:
    lanes = [one for one in picture.lanes if one.title == title and of.items() <= one.of.items()]
    assert len(lanes) == 1, [one.title for one in picture.lanes]
    return [(box.label, box.kind) for box in lanes[0].boxes]


OPENED = e.BatchOpened("p", 1, "t", 0)
DRAINED = e.BatchDrained("p", 1, "t", 0, 5, 3, 120, 4.9, 0, 7)
SENT = e.RequestInFlight("p", 9, 5, "PRODUCE", 33, 150)


@pytest.mark.shows("S4.23", "S4.24", breaks="barnabas.anatomy.scenes.producer:ProducerScene.apply")
def test_a_batch_lies_in_its_partitions_deque_until_the_sender_drains_it_for_a_node() -> None:
    opened = play("producer", "p", OPENED, e.BatchOpened("p", 2, "t", 0), e.BatchOpened("p", 3, "t", 1))
    assert boxes(opened, "deque", partition="t-0") == [("#1", "open"), ("#2", "open")]
    assert boxes(opened, "deque", partition="t-1") == [("#3", "open")]

    drained = play("producer", "p", OPENED, DRAINED)
    assert boxes(drained, "deque", partition="t-0") == []
    assert boxes(drained, "drained", node=5) == [("#1", "drained")]


def test_a_drained_batch_is_in_flight_with_its_request_and_ends_with_its_offset() -> None:
    in_flight = play("producer", "p", OPENED, DRAINED, SENT)
    assert boxes(in_flight, "drained", node=5) == [("#1", "moving")]
    assert boxes(in_flight, "in_flight") == [("PRODUCE", "moving")]

    answered = e.RequestAnswered("p", 9, 5, "PRODUCE", 33, "")
    ended = play("producer", "p", OPENED, DRAINED, SENT, answered, e.BatchEnded(1, "succeeded", 40, ""))
    assert boxes(ended, "drained", node=5) == []
    assert boxes(ended, "in_flight") == []
    assert boxes(ended, "ended") == [("#1", "good")]
    assert ended.lanes[-1].boxes[0].facts["offset"] == 40


def test_a_batch_that_is_tried_again_goes_to_the_head_of_its_deque() -> None:
    again = play(
        "producer", "p", OPENED, DRAINED, e.BatchOpened("p", 2, "t", 0),
        e.BatchRequeued("p", 1, "NOT_LEADER_OR_FOLLOWER", 100.0),
    )  # fmt: skip

    assert boxes(again, "deque", partition="t-0") == [("#1", "retrying"), ("#2", "open")]


def test_a_scene_ignores_what_belongs_to_another_subject() -> None:
    scene = SCENES["producer"]("p")

    assert not scene.apply(e.BatchOpened("q", 1, "t", 0))
    assert not scene.apply(e.BatchEnded(1, "succeeded", 0, ""))
    assert not scene.apply(e.GroupState("p", "Stable", 1, 1))


@pytest.mark.shows("S1.50", "S1.62", "S1.69", breaks="barnabas.anatomy.scenes.requests:Requests.apply")
def test_a_consumers_request_goes_from_unsent_over_in_flight_to_pending_completion() -> None:
    way: list[Event] = [
        e.RequestUnsent("c", 1, 5, "FETCH", 2),
        e.RequestInFlight("c", 1, 5, "FETCH", 2, 80),
        e.RequestAnswered("c", 1, 5, "FETCH", 2, ""),
        e.RequestCompleted("c", 1, 2),
    ]
    lanes = "unsent", "in_flight", "pending_completion"

    found = [[len(boxes(play("consumer", "c", *way[:n]), title)) for title in lanes] for n in (1, 2, 3)]

    assert found == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert not any(one.boxes for one in play("consumer", "c", *way).lanes if one.title in lanes)


def test_both_cores_of_a_consumer_have_queues_of_their_own_though_they_count_alike() -> None:
    picture = play("consumer", "c", e.RequestUnsent("c", 4, 5, "FETCH", 2), e.RequestUnsent("c", 6, 5, "HEARTBEAT", 2))

    assert boxes(picture, "unsent", core=1) == [("FETCH", "waiting")]
    assert boxes(picture, "unsent", core=2) == [("HEARTBEAT", "waiting")]


@pytest.mark.shows("S1.57", "S1.58", breaks="barnabas.anatomy.scenes.consumer:ConsumerScene.apply")
def test_completed_fetches_wait_until_they_are_handed_out_and_positions_follow() -> None:
    fetched = e.FetchCompleted("c", 5, "t", 0, 10, 300)
    waiting = play("consumer", "c", fetched)
    assert boxes(waiting, "completed_fetches") == [("t-0", "done")]

    drained = play("consumer", "c", fetched, e.PositionMoved("c", "t", 0, 14), e.FetchDrained("c", "t", 0, 10, 14))
    assert boxes(drained, "completed_fetches") == []
    assert drained.lanes[-1].boxes[0].facts["position"] == 14


def test_a_group_shows_two_owners_of_one_partition_as_bad() -> None:
    def member(client: str) -> list[Event]:
        return [e.MemberState(client, "g", client + "-id", "stable", 3), e.MemberAssigned(client, "t-0")]

    assert boxes(play("group", "g", *member("a")), "owners") == [("t-0", "good")]
    assert boxes(play("group", "g", *member("a"), *member("b")), "owners") == [("t-0", "bad")]
    gone = e.GroupMemberLeft("g", "b-id")
    assert boxes(play("group", "g", *member("a"), *member("b"), gone), "owners") == [("t-0", "good")]


def test_a_log_shows_its_segments_and_what_retention_and_compaction_did() -> None:
    told: list[Event] = [e.LogMoved("t", 0, 0, 5, 5, 5, 0, 100)]
    for base in (5, 9):
        told += [e.SegmentRolled("t", 0, base), e.LogMoved("t", 0, 0, base + 4, base + 4, base + 4, base, 60)]
    assert [label[-1] for label, _ in boxes(play("log", "t-0", *told), "segments")] == ["0", "5", "9"]

    cleaned = play("log", "t-0", *told, e.SegmentsReplaced("t", 0, 0, 9, 70), e.LogCleaned("t", 0, 9, 160, 70, 3))
    assert [(label[-1], kind) for label, kind in boxes(cleaned, "segments")] == [("0", "good"), ("9", "moving")]

    deleted = play("log", "t-0", *told, e.SegmentsDeleted("t", 0, 9, 2, "retention.ms"))
    assert [label[-1] for label, _ in boxes(deleted, "segments")] == ["9"]
    assert boxes(deleted, "log_work") == [("deleted", "bad")]


def test_a_lane_counts_what_it_does_not_show() -> None:
    many = lane("deque", (Box(str(n), str(n), "open", {}) for n in range(MOST_BOXES + 5)), partition="t-0")

    assert (len(many.boxes), many.more) == (MOST_BOXES, 5)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> recording.Recording:
    """The recording of a seed that has all there is: both group protocols, transactions, cleaning, faults."""
    path = tmp_path_factory.mktemp("anatomy") / "seed.jsonl"
    command = [sys.executable, "-m", "barnabas.testing.simulator", "--seed", "3", "--record", str(path)]
    played = subprocess.run(command, capture_output=True, text=True, check=False)
    assert played.returncode == 0, played.stdout + played.stderr
    assert f"barnabas anatomy {path}" in played.stdout
    return recording.read(path)._replace(events=[*recording.read(path).events, *of_a_cluster()])


def of_a_cluster() -> list[tuple[float, Event]]:
    """Three brokers of a seed with one partition, which fail in turn, and a controller that becomes active."""
    recorder = Recorder(lambda: cluster.world.now)
    cluster = ReplicatedCluster(19)
    anatomy.start(recorder)
    try:
        CoreController()
        cluster.run()
        handed_over()
        drawn()
    finally:
        anatomy.stop()
    return recorder.events()


def handed_over() -> None:
    """A task of Spark's source reads two batches of a partition."""
    fetcher = fetcher_of(Consumer([encoded(0, 5)], [encoded(5, 5)]), 0, 10)
    assert sum(batch.num_rows for batch in fetcher.run_fetch_loop()) == 10


def drawn() -> None:
    """A producer of the seed sends records without a key, which its own do not."""
    partitioner = BuiltInPartitioner(TOPIC, 100, Random(1), "producer1.1.1")
    for size in (0, 100):
        partitioner.peek_current_partition(cluster_of(3))
        partitioner.update_partition_info(size, cluster_of(3), enable_switch=True)


#: What a driver and a task of streams tell (test_scenes_of_jobs has them at work).
JOBS: list[tuple[float, Event]] = [
    (200.0, e.MicroBatchPlanned("q", 1, "t", 0, 0, 9)),
    (200.1, e.StreamsTaskStep("app", "0_0", 1, "restore", -1)),
    (200.2, e.StoreRestored("app", "0_0", "counts", "end", 9, 9)),
    (200.3, e.StreamsTaskCounted("app", "0_0", "consumed", "source", "t", 9, 90)),
    (200.4, e.MicroBatchEnded("q", "t", 0, 9)),
]


def test_stepping_back_shows_what_was_shown_on_the_way_there(run: recording.Recording) -> None:
    told = [*run.events, *JOBS]
    for scene, found in subjects(told).items():
        film = Film(told, scene, max(found, key=lambda subject: len(Film(told, scene, subject))))
        playing = SCENES[scene](film.subject)
        shown = [playing.picture() for _, event in told if playing.apply(event)]
        assert len(film) == len(shown) > 0
        for number in {len(film) - 1, len(film) // 2, min(KEYFRAME_STEPS, len(film) - 1), 0}:
            assert film.step(number).picture == shown[number]


def test_every_event_of_the_vocabulary_is_told_by_some_code_and_read_by_some_scene(run: recording.Recording) -> None:
    told = {type(event) for _, event in run.events}
    read = {
        type(event)
        for scene, found in subjects(run.events).items()
        for subject in found
        for playing in [SCENES[scene](subject)]
        for _, event in run.events
        if playing.apply(event)
    }
    source = "".join(path.read_text() for path in (Path(recording.__file__).parents[1]).rglob("*.py"))

    assert read == told
    assert {name for name in EVENTS if f"anatomy.events.{name}(" not in source} == set()
    # What no seed has every time: a batch that is too large, retention, a transaction's end; what needs Spark is told
    # in test_scenes_of_jobs.
    assert {kind.__name__ for kind in EVENTS.values()} - {kind.__name__ for kind in told} <= {
        *("MicroBatchPlanned", "MicroBatchEnded", "StreamsTaskStep", "StreamsTaskCounted", "StoreRestored"),
        "BatchSplit",
        "SegmentsDeleted",
        "SegmentsReplaced",
        "Violation",
    }


def test_a_picture_is_a_document_of_bounded_size(run: recording.Recording) -> None:
    import json

    told = [*run.events, *JOBS]
    for scene, found in subjects(told).items():
        for subject in found[:3]:
            film = Film(told, scene, subject)
            document = json.dumps(as_json(film.step(len(film) // 2).picture))
            assert len(document) < 50_000


def test_a_step_that_there_is_not_is_refused() -> None:
    film = Film([(0.0, OPENED)], "producer", "p")

    for number in (-1, 1):
        with pytest.raises(IllegalArgumentError, match="is not one of the 1 steps"):
            film.step(number)
    assert [film.step_at(at) for at in (-1.0, 0.0, 9.0)] == [0, 0, 0]


def role(broker: int, name: str, leader: int, epoch: int, isr: str, partition: int = 0) -> Event:
    return e.ReplicaRole(broker, "t", partition, name, leader, epoch, isr, "1,2,3")


ROLES = (role(1, "leader", 1, 0, "1,2,3"), role(2, "follower", 1, 0, "1,2,3"), role(3, "follower", 1, 0, "1,2,3"))


def test_each_broker_shows_its_replicas_and_how_far_they_are() -> None:
    moved = (e.ReplicaMoved(1, "t", 0, 4, 8), e.ReplicaMoved(2, "t", 0, 4, 6))
    found = play("cluster", "t", *ROLES, e.ControllerChanged(100, 100, 7), *moved)
    assert boxes(found, "controller") == [("100", "good")]
    assert [boxes(found, "replicas", broker=broker) for broker in (1, 2, 3)] == [
        [("t-0", "good")], [("t-0", "done")], [("t-0", "done")],
    ]  # fmt: skip
    leader, follower = (one.boxes[0] for one in found.lanes if one.of.get("broker") in (1, 2))
    assert (leader.fill, follower.fill) == (1.0, 0.75)
    assert (follower.facts["high_watermark"], follower.facts["log_end"]) == (4, 6)


def test_a_follower_that_falls_behind_leaves_the_isr_and_a_deposed_leader_is_told_apart() -> None:
    shrunk = play("cluster", "t", *ROLES, e.IsrChanged(1, "t", 0, 0, "1,2"))
    assert boxes(shrunk, "replicas", broker=3) == [("t-0", "retrying")]
    elected = play("cluster", "t", *ROLES, e.IsrChanged(1, "t", 0, 0, "1,2"), role(2, "leader", 2, 1, "2"))
    assert boxes(elected, "replicas", broker=1) == [("t-0", "bad")], "it does not know yet"
    assert boxes(elected, "replicas", broker=2) == [("t-0", "good")]
    assert boxes(elected, "cluster_changes") == [("t-0", "good"), ("t-0", "moving"), ("t-0", "good")]
    assert elected.lanes[-1].boxes[0].facts == {"leader": 2, "leader_epoch": 1, "isr": "2"}
    followed = play("cluster", "t", *ROLES, role(2, "leader", 2, 1, "2"), role(1, "follower", 2, 1, "2"))
    assert boxes(followed, "replicas", broker=1) == [("t-0", "retrying")]


def test_old_news_of_controllers_and_epochs_change_nothing() -> None:
    scene = SCENES["cluster"]("t")
    assert scene.apply(e.ControllerChanged(1, 100, 7))
    assert not any(scene.apply(e.ControllerChanged(2, *old)) for old in ((101, 6), (-1, 7), (100, 7)))
    for event in (role(2, "leader", 2, 1, "2"), e.IsrChanged(1, "t", 0, 0, "1,3"), role(3, "follower", 1, 0, "1,2,3")):
        assert scene.apply(event)
    assert boxes(scene.picture(), "cluster_changes") == [("t-0", "good")]


def test_in_the_history_of_a_seed_leaders_are_elected_and_their_logs_agree(run: recording.Recording) -> None:
    film = Film(run.events, "cluster", "t")
    last = film.step(len(film) - 1).picture
    replicas = [box for one in last.lanes if one.title == "replicas" for box in one.boxes]
    # When all is healed, each replica is in sync, and one leads in the newest epoch.
    assert sorted(box.kind for box in replicas) == ["done", "done", "good"]
    assert len({box.facts["log_end"] for box in replicas}) == 1
    elected = {event.epoch for _, event in run.events if isinstance(event, e.ReplicaRole)}
    assert len(elected) > 2
    assert any(isinstance(event, e.IsrChanged) for _, event in run.events)


def spark(*cases: str) -> Picture:
    return play("spark", "1", e.RangeBegun(1, "t", 0, 10, 20), *(e.HandoverMoved(1, case, "") for case in cases))


@pytest.mark.parametrize(
    ("cases", "thread", "slot", "fetcher"),
    [
        (["poll_waits"], "polls", 0, "waits for a batch"),
        (["poll_waits", "produced"], "polls", 1, "waits for a batch"),
        (["produced", "taken"], "polls", 0, "decodes"),
        (["produced", "produce_waits"], "waits for the slot", 1, "begins"),
        (["produced", "produce_waits", "woken"], "holds its batch", 1, "begins"),
        (["produced", "taken", "closed"], "has ended", 0, "has ended"),
    ],
)
def test_the_handover_passes_one_batch_at_a_time(cases: list[str], thread: str, slot: int, fetcher: str) -> None:
    found = spark(*cases)
    assert [label for label, _ in boxes(found, "consumer_thread")] == [thread]
    assert len(boxes(found, "handover")) == slot
    assert [label for label, _ in boxes(found, "fetcher")] == [fetcher]
    assert boxes(found, "handover_cases")[0][0] == cases[-1].replace("_", " ")


def test_the_five_cases_of_the_handover_are_counted_over_all_tasks() -> None:
    found = play(
        "handover", "tasks",
        e.RangeBegun(1, "t", 0, 10, 20), e.HandoverMoved(1, "poll_waits", ""), e.HandoverMoved(1, "produced", ""),
        e.HandoverMoved(1, "taken", ""), e.HandoverMoved(1, "closed", ""),
        e.RangeBegun(2, "t", 0, 10, 20), e.HandoverMoved(2, "poll_waits", ""),
        e.HandoverMoved(2, "failed", "KafkaTimeoutError: no data came"),
    )  # fmt: skip
    [five] = [one for one in found.lanes if one.title == "handover_five"]
    assert five.of == {"taken": 1}
    assert {box.label: box.facts.get("times") for box in five.boxes} == {
        "poll waits": 2, "produce waits": 0, "woken": 0, "failed": 1, "closed": 1,
    }  # fmt: skip
    [failed] = [box for box in five.boxes if box.label == "failed"]
    assert (failed.kind, failed.facts["task"], failed.facts["error"]) == ("bad", 2, "KafkaTimeoutError: no data came")
    # Above it stands the task that moved last.
    assert [label for label, _ in boxes(found, "consumer_thread")] == ["has ended"]


def test_an_error_of_the_thread_empties_the_slot_and_is_shown() -> None:
    told = (e.HandoverMoved(1, "produced", ""), e.HandoverMoved(1, "failed", "KafkaTimeoutError: no data came"))
    found = play("spark", "1", *told)
    assert boxes(found, "handover") == []
    [thread] = next(one.boxes for one in found.lanes if one.title == "consumer_thread")
    assert (thread.label, thread.facts) == ("has ended", {"error": "KafkaTimeoutError: no data came"})


def test_a_range_fills_as_its_rows_are_decoded() -> None:
    scene = SCENES["spark"]("1")
    for event in (e.RangeBegun(1, "t", 0, 10, 20), e.RowsDecoded(1, "t", 0, 4, 14)):
        assert scene.apply(event)
    [box] = scene.picture().lanes[0].boxes
    assert (box.label, box.kind, box.fill) == ("t-0", "moving", 0.4)
    assert scene.apply(e.RowsDecoded(1, "t", 0, 6, 20))
    assert boxes(scene.picture(), "ranges") == [("t-0", "good")]


def test_a_task_tells_every_case_of_its_handover(run: recording.Recording) -> None:
    told = [event.case for _, event in run.events if isinstance(event, e.HandoverMoved)]
    assert told.count("produced") == told.count("taken") == 2
    assert told[-1] == "closed"
    film = Film(run.events, "spark", subjects(run.events)["spark"][0])
    assert boxes(film.step(len(film) - 1).picture, "ranges") == [("t-0", "good")]
