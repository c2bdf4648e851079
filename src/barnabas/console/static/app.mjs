// The frame: menu, place, keyboard, language and colours. A screen is a row of SCREENS.
import { render } from "./vendor/preact.mjs";
import { html, t, get, post, loggedOut, remember, remembered, setOwner, useState, useEffect, useLanguage, useEvents, currentLanguage, LANGUAGES, Boundary, Dialog, Problem, Loading, visible } from "./kit.mjs";
import { Overview } from "./overview.mjs";
import { Topics } from "./topics.mjs";
import { Topic } from "./topic.mjs";
import { Groups, Group, Transactions } from "./groups.mjs";
import { BrokersPage, BrokerPage } from "./brokers.mjs";
import { Access } from "./access.mjs";
import { RecordPage } from "./records.mjs";
import { Schemas, Schema } from "./schemas.mjs";
import { Spark, Query, Streams, Topology } from "./jobs.mjs";
import { Changes } from "./changes.mjs";
import { Anatomy } from "./anatomy.mjs";
import { Login } from "./login.mjs";

// Name in the address → component, its key after `g`, and whether it stands in the menu.
const SCREENS = {
  overview: { view: Overview, key: "o", menu: true },
  topics: { view: Topics, key: "t", menu: true },
  topic: { view: Topic, under: "topics" },
  record: { view: RecordPage, under: "topics" },
  groups: { view: Groups, key: "g", menu: true },
  group: { view: Group, under: "groups" },
  transactions: { view: Transactions, key: "x", menu: true },
  spark: { view: Spark, key: "p", menu: true },
  query: { view: Query, under: "spark" },
  streams: { view: Streams, key: "m", menu: true },
  topology: { view: Topology, under: "streams" },
  brokers: { view: BrokersPage, key: "b", menu: true },
  broker: { view: BrokerPage, under: "brokers" },
  schemas: { view: Schemas, key: "c", menu: true },
  schema: { view: Schema, under: "schemas" },
  access: { view: Access, key: "s", menu: true },
  changes: { view: Changes, key: "l", menu: true },
  anatomy: { view: Anatomy, key: "a", menu: true },
};
const THEMES = ["auto", "light", "dark"];

// #/topic/NAME?tab=settings → {screen, name, query}
function place() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [screen, ...rest] = path.split("/");
  let name = "";
  try { name = decodeURIComponent(rest.join("/")); } catch { /* A link that somebody cut off names nothing. */ }
  return { screen: Object.hasOwn(SCREENS, screen) ? screen : "overview", name, query: new URLSearchParams(query ?? "") };
}

// A console of recordings alone has no cluster to show, and not every one is given a registry.
const NEEDS = { anatomy: "hasAnatomy", schemas: "hasSchemas", schema: "hasSchemas" };
const isShown = (name, session) => session[NEEDS[name] ?? "hasCluster"];

function applyTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

function useKeyboard(session, showHelp) {
  useEffect(() => {
    let previous = "";
    let pressedAt = 0;
    const onKey = (event) => {
      const inField = event.target.closest?.("input, textarea, select, dialog");
      if (event.ctrlKey || event.metaKey || event.altKey || inField) return;
      // When the key was pressed, not when a busy page comes to it.
      const goal = previous === "g" && event.timeStamp - pressedAt < 1500 && Object.entries(SCREENS).find(([name, screen]) => screen.key === event.key && isShown(name, session));
      if (goal) location.hash = `#/${goal[0]}`;
      else if (event.key === "?") showHelp(true);
      else if (event.key === "/" || event.key === "n") {
        const target = document.querySelector(event.key === "/" ? "[data-search]" : "[data-new]");
        if (!target) return;
        if (event.key === "/") target.focus(); else target.click();
      } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        const rows = [...document.querySelectorAll("[data-row]")];
        const at = rows.indexOf(document.activeElement);
        const next = rows[at + (event.key === "ArrowDown" ? 1 : -1)];
        if (at < 0 || !next) { previous = event.key; return; }
        next.focus();
      } else { previous = event.key; pressedAt = event.timeStamp; return; }
      previous = "";
      event.preventDefault();
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
}

function Help({ session, onClose }) {
  const keys = [...Object.entries(SCREENS).filter(([name, s]) => s.key && isShown(name, session)).map(([name, s]) => [`g ${s.key}`, t(`menu.${name}`)]),
    ["/", t("key.search")], ["n", t("key.new")], ["↑ ↓", t("key.rows")], ["?", t("key.help")], ["Esc", t("key.close")]];
  return html`<${Dialog} title=${t("help.title")} onClose=${onClose}><table><tbody>
    ${keys.map(([key, what]) => html`<tr><td><span class="kbd">${key}</span></td><td>${what}</td></tr>`)}</tbody></table>
    <div class="row"><button class="main" onClick=${onClose}>${t("action.close")}</button></div><//>`;
}

// Language and colours, which hold before anyone has logged in.
function Looks({ onSpoken }) {
  const [theme, setTheme] = useState(remembered("theme", "auto"));
  useEffect(() => { applyTheme(theme); remember("theme", theme); }, [theme]);
  const speak = async (event) => { await useLanguage(event.target.value); remember("language", currentLanguage()); onSpoken(currentLanguage()); };
  return html`<select aria-label=${t("menu.language")} value=${currentLanguage()} onChange=${speak}>${Object.entries(LANGUAGES).map(([code, name]) => html`<option value=${code}>${name}</option>`)}</select>
    <select aria-label=${t("menu.theme")} value=${theme} onChange=${(e) => setTheme(e.target.value)}>${THEMES.map((one) => html`<option value=${one}>${t(`theme.${one}`)}</option>`)}</select>`;
}

// Nothing of what was shown to a person stays in the page, and it asks for nothing more.
const leave = () => { render(null, document.getElementById("app")); location.reload(); };
const logOut = async () => { render(null, document.getElementById("app")); try { await post("api/logout", {}); } finally { location.reload(); } };

function LoginPage({ mechanisms, onDone }) {
  const [, setWords] = useState("");
  useEffect(() => { document.title = `${t("login.title")} – barnabas`; });
  return html`<header class="top"><span class="name">barnabas</span><span class="right"><${Looks} onSpoken=${setWords} /></span></header>
    <main id="main" tabindex="-1"><${Login} mechanisms=${mechanisms} onDone=${onDone} /></main>`;
}

function App({ session }) {
  const [at, setAt] = useState(place());
  const [help, setHelp] = useState(false);
  const [, setWords] = useState("");
  const { trouble, isAway } = useEvents(session.hasCluster ? "trouble" : "");
  useEffect(() => {
    const move = () => { setAt(place()); scrollTo(0, 0); };
    addEventListener("hashchange", move);
    return () => removeEventListener("hashchange", move);
  }, []);
  useEffect(() => { document.title = `${at.name || t(`menu.${isShown(at.screen, session) ? at.screen : "anatomy"}`)} – barnabas`; }, [at]);
  useKeyboard(session, setHelp);
  const screen = isShown(at.screen, session) ? at.screen : "anatomy";
  const { view: View } = SCREENS[screen];
  return html`<a class="skip" href="#main" onClick=${(e) => { e.preventDefault(); document.getElementById("main").focus(); }}>${t("menu.skip")}</a>
    <header class="top"><span class="name">barnabas</span>
      <nav aria-label=${t("menu.label")}>${Object.entries(SCREENS).filter(([name, s]) => s.menu && isShown(name, session)).map(([name]) => html`<a key=${name} href="#/${name}"
        aria-current=${screen === name || SCREENS[screen].under === name ? "page" : undefined}>${t(`menu.${name}`)}</a>`)}</nav>
      <span class="right">${session.readOnly && html`<span class="tag">${t("session.readOnly")}</span>`}
        <span class="dim mono">${visible(session.connection.at(-1) ?? "")}</span>
        <${Looks} onSpoken=${setWords} />
        ${session.user && html`<b data-user>${visible(session.user)}</b><button onClick=${logOut}>${t("session.logOut")}</button>`}
        <button aria-label=${t("help.title")} onClick=${() => setHelp(true)}>?</button></span></header>
    <main id="main" tabindex="-1">${isAway && html`<div class="box bad" role="alert" data-away>${t("error.away")}</div>`}${trouble && html`<div class="box bad" role="alert">${t("error.sample")} <b>${visible(trouble.error)}</b> ${visible(trouble.message)}</div>`}
      <${Boundary} place=${location.hash}><${View} key=${screen + at.name} name=${at.name} query=${at.query} session=${session} /><//></main>
    ${help && html`<${Help} session=${session} onClose=${() => setHelp(false)} />`}`;
}

async function start() {
  const root = document.getElementById("app");
  const show = (what) => { render(null, root); render(what, root); };
  root.textContent = "";
  applyTheme(remembered("theme", "auto"));
  try {
    await useLanguage(remembered("language", navigator.language.slice(0, 2)));
    show(html`<${Loading} />`);
    const session = await get("api/session");
    if (session.mechanisms) { show(html`<${LoginPage} mechanisms=${session.mechanisms} onDone=${start} />`); return; }
    setOwner(session.user);
    // A session that has ended while its page was open: log in again, at the same place.
    if (session.user) loggedOut.addEventListener("end", leave, { once: true });
    show(html`<${App} session=${session} />`);
  } catch (error) {
    show(html`<main><${Problem} error=${error} /></main>`);
  }
}

start();
