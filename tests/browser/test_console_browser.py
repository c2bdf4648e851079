"""The console in a real browser: every screen, by keyboard, in both languages and colours, with no error on the way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from barnabas import AdminClient, Broker, Consumer, NewTopic, Producer
from tests.support.browser import Watched, chromium, violations
from tests.support.running_console import RunningConsole

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

pytest.importorskip("starlette")

TOPICS = 2000
#: A bound for what goes wrong by orders of magnitude: other work of the machine makes each piece longer.
LONGEST_PIECE_MS = 1500
GROUP = "readers/<img src=x onerror=alert(1)>&?#"
#: A place on each screen.
PLACES = [
    "overview",
    "topics",
    "topic/flights",
    "topic/flights?tab=settings",
    "topic/flights?tab=records",
    "record/flights/0/0",
    "groups",
    f"group/{quote(GROUP, safe='')}",
    "transactions",
    "brokers",
    "broker/1",
    "access",
    "spark",
    "streams",
    "changes",
]
#: What must stay text, in keys, values and headers.
ATTACKS = [
    "<img src=x onerror=alert(1)>",
    "<script>alert(1)</script>",
    "<svg/onload=alert(1)>",
    '"><iframe srcdoc="<script>alert(1)</script>">',
    "javascript:alert(1)",
    "<a href='javascript:alert(1)'>click</a>",
    "<style>*{display:none}</style>",
    "<link rel=stylesheet href=http://evil.example/x.css>",
    "<meta http-equiv=refresh content='0;url=http://evil.example'>",
    "<base href=http://evil.example/>",
    "{{constructor.constructor('alert(1)')()}}",
    "${alert(1)}",
    '{"__proto__": {"html": "<b>x</b>"}, "dangerouslySetInnerHTML": {"__html": "<img src=x onerror=alert(1)>"}}',
    '{"type": "script", "props": {"children": "alert(1)"}, "constructor": null, "__v": 1}',
    "\u202egnirts desrever\u202c",
    "\x1b[31mred\x1b[0m\x07",
    '=HYPERLINK("http://evil.example")',
    "[" * 3000,
    "x" * 100_000,
]
#: A page of another origin that tries to show, read, and change the console of the browser's user.
EVIL = """<iframe src="CONSOLE/"></iframe><script>
const tried = (attempt, name) => attempt.then(() => name, () => "no");
const source = new EventSource("CONSOLE/api/events?kinds=overview", {withCredentials: true});
Promise.all([
  tried(fetch("CONSOLE/api/topics", {credentials: "include"}), "read"),
  tried(fetch("CONSOLE/api/topics", {method: "POST", credentials: "include", mode: "no-cors",
    headers: {"Content-Type": "text/plain"}, body: '{"name":"forged"}'}), "sent"),
  tried(new Promise((open, fail) => { source.onopen = open; source.onerror = fail; }), "stream"),
]).then((done) => { source.close(); document.title = done.join(" "); });
</script>"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    with Broker(config={"offsets.topic.num.partitions": 1}) as broker:
        with AdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(f"topic-{number:04}", 1) for number in range(TOPICS)])
            admin.create_topics([NewTopic("flights", 6), NewTopic("wild", 1)])
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for number in range(600):
                producer.send("flights", key=str(number).encode(), value=b'{"n": %d}' % number)
            for attack in ATTACKS:
                data = attack.encode()
                producer.send("wild", data, data, headers=[(attack[:200], data)])
        with Consumer(group_id=GROUP, bootstrap_servers=broker.bootstrap_servers) as consumer:
            consumer.assign([("flights", number) for number in range(6)])
            consumer.commit(dict.fromkeys(consumer.assignment(), 1))
        yield broker.bootstrap_servers


@pytest.fixture(scope="module")
def console(cluster: str) -> Iterator[RunningConsole]:
    with RunningConsole(cluster) as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def watched(browser: Browser, console: RunningConsole) -> Watched:
    context = browser.new_context(viewport={"width": 1200, "height": 800}, locale="en-GB", timezone_id="Asia/Seoul")
    found = Watched(context.new_page(), console.url)
    found.page.goto(console.link)
    return found


@pytest.fixture
def page(watched: Watched, console: RunningConsole) -> Iterator[Page]:
    watched.page.goto(f"{console.url}/#/overview")
    watched.wrong.clear()
    yield watched.page
    assert watched.wrong == []


def test_the_link_leads_in_and_its_token_leaves_the_address(page: Page, console: RunningConsole) -> None:
    page.wait_for_selector("[data-health=good]")

    assert page.url == f"{console.url}/#/overview"
    assert "All 2,008 partitions are in sync. Brokers: 1." in page.inner_text("main")
    assert page.evaluate("document.cookie") == ""


def test_two_thousand_topics_are_listed_at_once_and_searched(page: Page) -> None:
    page.wait_for_selector("[data-health]")
    held: list[Route] = []
    page.route("**/api/sizes", lambda route: held.append(route))
    press(page, "g", "t")
    page.locator("[data-count]").get_by_text("2,002 of 2,003 topics").wait_for()

    # The names take one request; what takes asking each broker comes later.
    assert 0 < page.locator("[data-row]").count() < 60
    while not held:
        page.wait_for_timeout(20)
    assert "…" in page.locator(".line:not(.head)").first.inner_text()
    held[0].continue_()
    page.unroute("**/api/sizes")
    page.locator(".line:not(.head)").first.get_by_text("…").first.wait_for(state="detached")
    page.keyboard.press("/")
    page.keyboard.type("1999")
    page.locator("[data-count]").get_by_text("1 of 2,003 topics").wait_for()
    assert page.locator("[data-row]").all_inner_texts() == ["topic-1999"]


def press(page: Page, *keys: str, busy_for: float = 0) -> None:
    """Press keys one right after the other; the page comes to the later ones so many milliseconds later.

    Playwright waits for the page between two keys, so on a loaded machine they are far apart.
    """
    page.evaluate(
        """([keys, busyFor]) => {
          const clock = performance.now;
          let passed = 0;
          performance.now = () => clock.call(performance) + passed;
          for (const event of keys.map((key) => new KeyboardEvent("keydown", { key, bubbles: true }))) {
            document.body.dispatchEvent(event);
            passed += busyFor;
          }
          performance.now = clock;
        }""",
        [keys, busy_for],
    )


def test_keys_count_by_when_they_were_pressed_however_busy_the_page_is(page: Page, console: RunningConsole) -> None:
    page.wait_for_selector("[data-health]")
    press(page, "g", "b", busy_for=60_000)

    assert page.url == f"{console.url}/#/brokers"


def test_the_list_scrolls_to_its_end_and_sorts_by_size(page: Page) -> None:
    page.goto(page.url.replace("overview", "topics"))
    page.wait_for_selector("[data-row]")
    page.locator(".list").evaluate("list => { list.scrollTop = list.scrollHeight; }")
    page.get_by_text("topic-1999").wait_for()
    page.locator(".list").evaluate("list => { list.scrollTop = 0; }")
    page.get_by_role("button", name="Size").click()

    page.locator("[data-row]").first.get_by_text("wild").wait_for()
    assert "KiB" in page.locator(".line:not(.head)").first.inner_text()


def test_sizes_that_a_broker_did_not_tell_come_by_themselves(page: Page, watched: Watched) -> None:
    failed: list[Route] = []

    def fail_once(route: Route) -> None:
        if failed:
            route.continue_()
        else:
            failed.append(route)
            route.abort()

    page.route("**/api/sizes", fail_once)
    page.goto(page.url.replace("overview", "topics"))
    page.get_by_role("alert").wait_for()
    page.locator(".line:not(.head)").first.get_by_text("KiB").wait_for()
    page.unroute("**/api/sizes")

    assert "sizes" in failed[0].request.url
    assert "ERR_FAILED" in watched.take_wrong()


@pytest.mark.slow
def test_a_topic_is_made_changed_and_deleted(page: Page) -> None:
    page.goto(page.url.replace("overview", "topics"))
    page.wait_for_selector("[data-row]")
    page.keyboard.press("n")
    page.get_by_label("Topic", exact=True).fill("made-here")
    page.get_by_label("Partitions (").fill("3")
    page.get_by_role("button", name="Check").click()
    page.get_by_text("The cluster would accept this.").wait_for()
    assert "barnabas topic create made-here -p 3" in page.inner_text("dialog")
    page.get_by_role("button", name="Create").click()
    page.get_by_role("heading", name="made-here").wait_for()
    page.get_by_role("link", name="Settings").click()
    page.get_by_role("button", name="Change retention.ms").click()
    page.get_by_label("retention.ms").last.fill("60000")
    page.get_by_role("dialog").get_by_role("button", name="Change").click()
    page.get_by_text("this topic").wait_for()
    page.get_by_role("button", name="Delete").first.click()
    go = page.get_by_role("dialog").get_by_role("button", name="Delete")
    assert go.is_disabled()
    page.get_by_label("To go on, type made-here").fill("made-here")
    go.click()

    page.wait_for_url("**/#/topics")


def test_an_error_of_the_cluster_is_said_in_the_dialog(page: Page, watched: Watched) -> None:
    page.goto(page.url.replace("overview", "topics"))
    page.get_by_role("button", name="New topic").click()
    page.get_by_label("Topic", exact=True).fill("flights")
    page.get_by_role("button", name="Check").click()

    page.get_by_role("alert").get_by_text("TopicExistsError").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="detached")
    # The browser notes every response with an error.
    assert "409" in watched.take_wrong()


def test_a_topic_that_is_not_there_is_said(page: Page, watched: Watched) -> None:
    page.goto(page.url.replace("overview", "topic/nowhere"))

    page.get_by_role("alert").get_by_text("UnknownTopicOrPartitionError").wait_for()
    assert "404" in watched.take_wrong()


@pytest.mark.slow
def test_korean_and_dark_stay_chosen(page: Page, console: RunningConsole) -> None:
    page.wait_for_selector("[data-health]")
    page.get_by_label("Language").select_option("ko")
    page.get_by_text("브로커 1대의 파티션 2,008개가 모두 동기화되어 있습니다.").wait_for()
    page.get_by_label("색상").select_option("dark")
    page.reload()
    page.get_by_role("heading", name="개요").wait_for()

    assert page.evaluate("document.documentElement.lang") == "ko"
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 24, 30)"
    page.get_by_label("색상").select_option("light")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    page.get_by_label("색상").select_option("auto")
    page.get_by_label("언어").select_option("en")


@pytest.mark.slow
def test_help_opens_by_key_and_everything_has_a_name(page: Page) -> None:
    page.wait_for_selector("[data-health]")
    page.keyboard.press("?")
    page.get_by_role("dialog", name="Keyboard").wait_for()
    page.get_by_role("button", name="Close").click()

    for place in PLACES:
        page.goto(page.url.partition("#")[0] + f"#/{place}")
        page.wait_for_selector("h1")
        page.wait_for_selector("main table, main [role=table], main pre, main .box")
        nameless = page.locator("button, input, select, a").evaluate_all(
            """all => all.filter(one => !(one.innerText || one.ariaLabel || one.labels?.length))
            .map(one => one.outerHTML)"""
        )
        assert nameless == [], place


def test_times_are_those_of_the_reader_who_is_in_seoul(page: Page, cluster: str, console: RunningConsole) -> None:
    with Producer(bootstrap_servers=cluster) as producer:
        written = producer.send("timed", b"v", timestamp_ms=1_700_000_000_000).result()
    page.goto(f"{console.url}/#/record/timed/0/{written.offset}")
    page.get_by_role("heading", name="offset 0").wait_for()

    # 2023-11-14 22:13:20 in Greenwich.
    page.get_by_text("15 Nov 2023, 07:13:20").wait_for()


def test_hostile_records_stay_text(page: Page) -> None:
    page.goto(page.url.replace("overview", "topic/wild?tab=records&from=beginning"))
    page.locator("[data-ended=end]").wait_for()
    shown = page.inner_text("main")

    for attack in ATTACKS[:12]:
        assert attack in shown
    assert "\u202e" not in shown
    assert "\x1b" not in shown
    assert page.locator("main img, main iframe, main script, main svg, main style, main meta, main base").count() == 0
    for offset in range(len(ATTACKS)):
        page.goto(page.url.partition("#")[0] + f"#/record/wild/0/{offset}")
        page.get_by_role("heading", name=f"offset {offset}").wait_for()
        page.locator("main pre").first.wait_for()
        assert page.locator("main img, main iframe, main script, main svg, main style").count() == 0


def test_records_are_filtered_followed_live_and_made_like_another(page: Page) -> None:
    page.goto(page.url.replace("overview", "topic/flights?tab=records"))
    page.locator("[data-ended=end]").wait_for()
    page.get_by_label("From").fill("beginning")
    page.get_by_label("Filter").fill("value.n = 77")
    page.get_by_role("button", name="Read").click()
    page.get_by_text("1 found").wait_for()
    page.locator("[data-row]").click()
    page.get_by_role("heading", name="Record flights-").wait_for()
    assert '"n": 77' in page.locator("pre").last.inner_text()
    page.keyboard.press("n")
    page.get_by_label("Value", exact=True).fill('{"n": 7777}')
    page.get_by_role("button", name="Send").click()
    page.get_by_text("Sent: partition").click()
    page.locator("pre").get_by_text("7777").wait_for()


def test_a_reading_is_saved_by_name_used_after_a_reload_and_forgotten(page: Page, console: RunningConsole) -> None:
    page.goto(f"{console.url}/#/topic/flights?tab=records")
    saved = page.get_by_label("Saved readings")
    saved.wait_for()
    page.locator("[data-search]").fill("value.n = 597")
    page.get_by_label("Values as").select_option("json")
    for name in (ATTACKS[0], "second"):
        saved.select_option("save")
        dialog = page.get_by_role("dialog")
        assert dialog.get_by_role("button", name="Save").is_disabled()
        dialog.get_by_label("Name").fill(name)
        dialog.get_by_role("button", name="Save").click()
        dialog.wait_for(state="detached")
    page.goto(f"{console.url}/#/topic/wild?tab=records")
    page.reload()
    saved.wait_for()
    assert ATTACKS[0] not in saved.inner_text(), "readings are those of a topic"
    page.goto(f"{console.url}/#/topic/flights?tab=records")
    page.reload()
    saved.select_option(label=ATTACKS[0])
    assert page.locator("[data-search]").input_value() == "value.n = 597"
    assert page.get_by_label("Values as").input_value() == "json"
    page.get_by_role("button", name="Read", exact=True).click()
    page.locator("[data-ended=end]").wait_for()
    assert page.locator("tbody tr").count() == 1
    saved.select_option(label=f"Forget: {ATTACKS[0]}")
    page.reload()
    saved.wait_for()
    assert [text for text in saved.locator("option").all_inner_texts() if "Forget" in text] == ["Forget: second"]


def test_a_group_is_found_by_keyboard_and_its_offsets_move_after_a_preview(page: Page) -> None:
    page.wait_for_selector("[data-health]")
    press(page, "g", "g")
    page.get_by_role("link", name=GROUP).click()
    page.get_by_role("heading", name=GROUP).wait_for()
    page.get_by_role("button", name="Move offsets").click()
    page.get_by_label("To: beginning").fill("end")
    page.get_by_role("button", name="Preview").click()
    page.get_by_text("What would be changed").wait_for()
    assert "--to-latest" in page.inner_text("dialog")
    page.get_by_role("dialog").get_by_role("button", name="Move offsets").click()
    page.get_by_role("dialog").wait_for(state="detached")

    page.locator(".tile", has_text="Lag").get_by_text("0", exact=True).wait_for()


def test_offsets_move_by_lines_and_what_is_out_of_range_is_said(page: Page) -> None:
    page.goto(page.url.partition("#")[0] + f"#/group/{quote(GROUP, safe='')}")
    page.get_by_role("button", name="Move offsets").click()
    page.get_by_label("By a file").check()
    page.get_by_role("dialog").get_by_role("textbox").fill("flights,0,99999")
    page.get_by_role("button", name="Preview").click()
    page.get_by_role("dialog").get_by_text("99,999 is out of range").wait_for()
    assert "group offsets import" in page.inner_text("dialog")
    page.get_by_role("button", name="Cancel").click()


def test_a_wrong_filter_is_explained(page: Page, watched: Watched) -> None:
    page.goto(page.url.replace("overview", "topic/flights?tab=records&filter=value.n+%3D"))

    page.get_by_role("alert").get_by_text("the filter goes wrong").wait_for()
    page.wait_for_load_state("networkidle")
    assert "400" in watched.take_wrong()


@pytest.mark.slow
def test_a_phone_shows_every_screen_without_scrolling_sideways(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    try:
        for place in PLACES:
            page.goto(page.url.partition("#")[0] + f"#/{place}")
            page.wait_for_selector("main table, main [role=table], main pre, main .box")
            assert page.evaluate("document.documentElement.scrollWidth") <= 390, place
    finally:
        page.set_viewport_size({"width": 1200, "height": 800})


def test_no_other_page_can_frame_or_read_the_console(
    browser: Browser, console: RunningConsole, watched: Watched, tmp_path: Path
) -> None:
    (tmp_path / "evil.html").write_text(EVIL.replace("CONSOLE", console.url), encoding="utf-8")
    page = watched.page.context.new_page()
    page.goto((tmp_path / "evil.html").as_uri())
    page.wait_for_function("document.title")

    assert page.title().split() == ["no", "no", "no"]
    assert page.frames[1].url.startswith("chrome-error:")
    page.close()
    names = watched.page.evaluate("fetch('/api/topics').then(answer => answer.json()).then(found => found.names)")
    assert "forged" not in names


def test_a_number_keeps_its_digits_and_a_document_its_shape(page: Page, cluster: str, console: RunningConsole) -> None:
    text = b'{"id": 9007199254740993, "a": [], "b": {"c": [1, 2.50]}, "id": "{\\"x\\": [1]}"}'
    with Producer(bootstrap_servers=cluster) as producer:
        written = producer.send("shaped", text).result()
    page.goto(f"{console.url}/#/record/shaped/0/{written.offset}")
    page.get_by_role("heading", name="offset 0").wait_for()
    page.locator("pre .n1").first.wait_for()

    assert page.locator("pre").last.inner_text().split("\n") == [
        "{", '  "id": 9007199254740993,', '  "a": [],', '  "b": {', '    "c": [', "      1,", "      2.50", "    ]",
        "  },", '  "id": "{\\"x\\": [1]}"', "}",
    ]  # fmt: skip
    assert page.locator("pre .n1").all_inner_texts() == ['"id"', '"a"', '"b"', '"c"', '"id"']


def test_a_setting_says_what_its_number_means(page: Page, console: RunningConsole) -> None:
    page.goto(f"{console.url}/#/topic/flights?tab=settings")

    def value(setting: str) -> str:
        return page.locator("tr").filter(has_text=setting).locator("td").nth(1).inner_text()

    assert value("delete.retention.ms") == "86400000 (24 hr)"
    assert value("index.interval.bytes") == "4096 (4 KiB)"
    assert value("cleanup.policy") == "delete"


def test_records_on_a_phone_are_read_across_the_whole_screen(page: Page, console: RunningConsole) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    try:
        page.goto(f"{console.url}/#/topic/flights?tab=records&from=newest:20")
        page.locator("[data-ended=end]").wait_for()
        value = page.locator("table.records tbody tr").first.locator("td").nth(4)

        assert value.bounding_box()["width"] > 300  # type: ignore[index]
        assert violations(page) == []
    finally:
        page.set_viewport_size({"width": 1200, "height": 800})


#: Notes how long each frame of the page takes, until they are taken.
FRAMES = """() => { const noted = window.noted = []; let last = 0;
    const note = (now) => { if (last) noted.push(now - last); last = now; window.next = requestAnimationFrame(note); };
    window.next = requestAnimationFrame(note); }"""
TAKEN = "() => { cancelAnimationFrame(window.next); return window.noted; }"


def test_two_thousand_topics_scroll_as_smoothly_as_the_page_stands_still(page: Page, console: RunningConsole) -> None:
    page.goto(f"{console.url}/#/topics")
    page.locator("[data-count]").get_by_text("of 2,0").wait_for()
    page.locator(".line:not(.head)").first.get_by_text("…").first.wait_for(state="detached")
    page.evaluate(FRAMES)
    page.wait_for_timeout(1000)
    still = page.evaluate(TAKEN)
    page.evaluate(FRAMES)
    most = page.evaluate(
        """async () => { const list = document.querySelector(".list"); let most = 0;
        for (let step = 0; step <= 60; step++) { list.scrollTop = list.scrollHeight * step / 60;
            await new Promise((next) => requestAnimationFrame(() => requestAnimationFrame(next)));
            most = Math.max(most, document.querySelectorAll("[data-row]").length); }
        return most; }"""
    )
    moving = page.evaluate(TAKEN)

    assert most < 60
    # A frame in which a row had to wait for the others is far longer than one in which nothing happens.
    assert median(moving) < 3 * median(still), (median(moving), median(still), max(moving))


#: Reads once more, and counts the frames in which rows came.
REDRAWN = """() => new Promise((done) => {
    const seen = new Set();
    const look = () => {
        const drawn = document.querySelector("[data-drawn]")?.dataset.drawn;
        if (drawn) seen.add(drawn);
        if (drawn === "999" && seen.size > 1) done(seen.size); else requestAnimationFrame(look); };
    document.querySelector("button[type=submit]").click();
    look(); })"""


@pytest.mark.slow
def test_a_million_records_are_searched_without_a_stutter(browser: Browser) -> None:
    """What the page's one thread does in one piece, told by the browser while a search and a live list go on."""
    with Broker() as broker:
        with AdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("million", 6)])
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for number in range(1_000_000):
                producer.send("million", b'{"n": %d}' % number, b"%d" % number, partition=number % 6)
        with RunningConsole(broker.bootstrap_servers) as console:
            watched = Watched(browser.new_context(locale="en-GB").new_page(), console.url)
            page = watched.page
            page.goto(console.link)
            page.wait_for_selector("[data-health]")
            page.evaluate("""() => { window.pieces = [];
                new PerformanceObserver((list) => window.pieces.push(...list.getEntries().map((one) => one.duration)))
                    .observe({ type: "longtask", buffered: true }); }""")
            page.goto(
                f"{console.url}/#/topic/million?tab=records&from=beginning&limit=1000&filter=value.n%20%3E%20999000"
            )
            page.locator("[data-ended=end], [data-ended=enough]").wait_for()
            assert "1,000,000" in page.inner_text("main [data-ended]")
            page.locator("[data-drawn='999']").wait_for()
            assert page.locator("tbody tr").count() == 999
            drawing = page.evaluate("window.pieces.splice(0)")
            frames = page.evaluate(REDRAWN)
            page.locator("[data-search]").press_sequentially(" and partition = 1")
            typing = page.evaluate("window.pieces")
        assert watched.wrong == []
    for what, pieces in (("the search", drawing), ("18 keys beside 999 rows", typing)):
        assert max(pieces, default=0) < LONGEST_PIECE_MS, (what, pieces)
    # The rows come some at a time, and the page answers in between.
    assert frames >= 999 // 40
    # A list that is drawn again with each key has one for each.
    assert len(typing) < 9
