// What all screens share: html, texts, requests, streams, numbers, and small components. Data becomes text nodes only.
import { h, Component } from "./vendor/preact.mjs";
import { useState, useEffect, useRef, useCallback, useMemo } from "./vendor/hooks.mjs";
import htm from "./vendor/htm.mjs";
import uPlot from "./vendor/uplot.mjs";

export const html = htm.bind(h);
export { useState, useEffect, useRef, useCallback, useMemo };

// --- texts

export const LANGUAGES = { en: "English", ko: "한국어" };
let texts = {};
let language = "en";

export async function useLanguage(wanted) {
  language = wanted in LANGUAGES ? wanted : "en";
  texts = await (await fetch(`texts/${language}.json`)).json();
  document.documentElement.lang = language;
}

export function t(key, values = {}) {
  const text = texts[key] ?? key;
  return text.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
}

export const currentLanguage = () => language;

// Control and direction characters as symbols: a name from the cluster must not rearrange the page.
export function visible(text) {
  return String(text).replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g, (c) => {
    const code = c.charCodeAt(0);
    return code < 32 ? String.fromCharCode(0x2400 + code) : `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
  });
}

// --- what this browser keeps; with logins what a person keeps is found by that person again, and by no other

let owner = "";
export const setOwner = (user) => { owner = user ? `${user}: ` : ""; };

export function remembered(name, otherwise) { try { return localStorage.getItem(name) ?? otherwise; } catch { return otherwise; } }
export function remember(name, value) { try { localStorage.setItem(name, value); } catch { /* A browser without storage forgets. */ } }
export function rememberedOwn(name) { try { return JSON.parse(localStorage.getItem(owner + name) ?? "[]"); } catch { return []; } }
export const rememberOwn = (name, rows) => remember(owner + name, JSON.stringify(rows));

// --- numbers and times, in the reader's form and zone

// Making a form takes longer than using it a hundred times: each is made once for a language.
const forms = new Map();
function formOf(kind, tag, options) {
  const key = `${kind.name} ${tag} ${JSON.stringify(options)}`;
  if (!forms.has(key)) forms.set(key, new kind(tag, options));
  return forms.get(key);
}
const number = (n, options = {}) => formOf(Intl.NumberFormat, language, options).format(n);
// The words are of the page's language, the form is of the reader's country where the browser tells one.
const moment = (ms, options) => {
  const at = new Date(ms);
  if (Number.isNaN(at.getTime())) return String(ms);
  return formOf(Intl.DateTimeFormat, navigator.languages.find((tag) => tag.split("-")[0] === language) ?? language, options).format(at);
};
const isTime = (ms) => ms !== null && ms !== undefined && ms >= 0;

export const count = (n) => (n === null || n === undefined ? "–" : number(n));

export function size(bytes) {
  if (bytes === null || bytes === undefined || bytes < 0) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  while (bytes >= 1024 && i < units.length - 1) { bytes /= 1024; i++; }
  return `${number(bytes, { maximumFractionDigits: i ? 1 : 0 })} ${units[i]}`;
}

export const rate = (n) => (n ? t("unit.perSecond", { n: number(n, { maximumFractionDigits: n < 10 ? 1 : 0 }) }) : "–");

export const time = (ms) => (isTime(ms) ? moment(ms, { dateStyle: "medium", timeStyle: "medium" }) : "–");
const TO_MS = { year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3 };
export const instant = (ms) => (isTime(ms) ? moment(ms, TO_MS) : "–");

// How long something has waited: `delay` has ms, and whether that is only the least it may be.
export function age(delay) {
  if (!delay) return "–";
  const seconds = delay.ms / 1000;
  const [n, unit] = seconds < 60 ? [seconds, "second"] : seconds < 5400 ? [seconds / 60, "minute"] : seconds < 172800 ? [seconds / 3600, "hour"] : [seconds / 86400, "day"];
  const text = number(n, { style: "unit", unit, unitDisplay: "short", maximumFractionDigits: n < 10 && seconds ? 1 : 0 });
  return delay.isAtLeast ? t("unit.atLeast", { n: text }) : text;
}

// What a setting's number means: 86400000 of retention.ms is a day, 1073741824 of segment.bytes a GiB.
export function hint(name, value) {
  const n = /^\d{4,15}$/.test(value ?? "") ? Number(value) : 0;
  if (!n) return "";
  if (/(^|\.)ms$/.test(name)) return `(${age({ ms: n })})`;
  return /(bytes|buffer\.size|memory)$/.test(name) ? `(${size(n)})` : "";
}

// --- requests

export class Failure extends Error {
  constructor(status, error, message) { super(message); this.status = status; this.error = error; }
}

// Says "end" when the session has ended. A stranger is told by what one may log in.
export const loggedOut = new EventTarget();
const sayEnd = () => loggedOut.dispatchEvent(new Event("end"));

async function answer(response) {
  const isJson = (response.headers.get("content-type") ?? "").startsWith("application/json");
  // A proxy's page, half an answer, or one that was not meant. What the console refuses it says in plain words.
  const strange = () => new Failure(response.status, String(response.status), t("error.strange", { status: response.status }));
  if (!isJson && response.status >= 500) throw strange();
  let document;
  try { document = isJson ? await response.json() : { message: await response.text() }; } catch (problem) { throw problem.name === "AbortError" ? problem : strange(); }
  if (document.error === "NotLoggedIn") sayEnd();
  if (!response.ok) throw new Failure(response.status, document.error ?? String(response.status), document.message);
  return document;
}

async function ask(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (problem) {
    if (problem.name === "AbortError") throw problem;
    throw new Failure(0, "ConsoleGone", t("error.consoleGone"));
  }
  return answer(response);
}

export const get = (path, signal) => ask(path, { signal });
export const post = (path, document) => ask(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(document) });
export const enc = encodeURIComponent;

// The document at a path, asked for again when the path changes or `reload` is called.
export function useDocument(path, everySeconds = 0) {
  const [state, setState] = useState({ path: null, data: null, error: null });
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    if (path === null) return undefined;
    const controller = new AbortController();
    get(path, controller.signal)
      .then((data) => setState({ path, data, error: null }))
      .catch((error) => { if (error.name !== "AbortError") setState((old) => ({ path, data: old.path === path ? old.data : null, error })); });
    return () => controller.abort();
  }, [path, turn]);
  useEffect(() => {
    if (path === null || everySeconds === 0) return undefined;
    const timer = setInterval(() => { if (!document.hidden) setTurn((n) => n + 1); }, everySeconds * 1000);
    return () => clearInterval(timer);
  }, [path, everySeconds]);
  const fresh = state.path === path ? state : { data: null, error: null };
  return { data: fresh.data, error: fresh.error, reload: useCallback(() => setTurn((n) => n + 1), []) };
}

// The last state of each kind of event; no stream is open while the tab is hidden.
export function useEvents(kinds) {
  const [states, setStates] = useState({});
  useEffect(() => {
    if (!kinds) return undefined;
    let source = null;
    let again = 0;
    let failures = 0;
    const open = () => {
      source = new EventSource(`api/events?kinds=${kinds}`);
      source.addEventListener("open", () => { failures = 0; setStates(({ isAway, ...rest }) => rest); });
      // A stream that does not come back may have ended with its session, which any request tells.
      // A browser tries again by itself where nothing answers, and not after an answer that refuses.
      source.addEventListener("error", () => {
        const isRefused = source?.readyState === EventSource.CLOSED;
        if (++failures > 1 || isRefused) setStates((old) => ({ ...old, isAway: true }));
        if (!isRefused) return;
        source = null;
        again = setTimeout(follow, 3000);
        get("api/session").then((session) => { if (session.mechanisms) sayEnd(); }, () => {});
      });
      for (const kind of kinds.split(",")) {
        source.addEventListener(kind, (event) => { const state = JSON.parse(event.data); setStates((old) => ({ ...old, [kind]: state })); });
      }
    };
    const close = () => { clearTimeout(again); source?.close(); source = null; };
    const follow = () => { clearTimeout(again); if (document.hidden) close(); else if (source === null) open(); };
    follow();
    document.addEventListener("visibilitychange", follow);
    return () => { document.removeEventListener("visibilitychange", follow); close(); };
  }, [kinds]);
  return states;
}

// --- components

// What the console and the cluster say of a failure is in English; before it stands what kind it is, in the reader's words.
const STATUSES = new Set([400, 403, 404, 409, 500, 502, 504]);
export function Problem({ error }) {
  if (!error) return null;
  const sentence = STATUSES.has(error.status) && html`${t(`error.status.${error.status}`)} `;
  return html`<div class="box bad" role="alert">${sentence}<b>${visible(error.error ?? error.name)}</b> ${visible(error.message)}
    ${error.status === 401 && html`<div>${t("error.login")}</div>`}</div>`;
}

// What takes so long may never come: a console that is stopped, a proxy that holds its answer back.
const SLOW_MS = 10_000;
export function Loading() {
  const [isSlow, setSlow] = useState(false);
  useEffect(() => { const timer = setTimeout(() => setSlow(true), SLOW_MS); return () => clearTimeout(timer); }, []);
  return html`<p class="dim" role="status" data-slow=${isSlow}>${isSlow ? t("state.slow") : t("state.loading")}</p>`;
}
export const Empty = ({ children }) => html`<div class="box" role="status">${children}</div>`;

export function Copy({ text, label }) {
  const [done, setDone] = useState(false);
  const copy = async () => { await navigator.clipboard.writeText(text); setDone(true); setTimeout(() => setDone(false), 1500); };
  return html`<button onClick=${copy}>${done ? t("action.copied") : label ?? t("action.copy")}</button>`;
}

export function Command({ line }) {
  if (!line) return null;
  return html`<div class="command"><span>${t("command.same")}</span><code>${visible(line)}</code><${Copy} text=${line} /></div>`;
}

export function Dialog({ title, onClose, children }) {
  const box = useRef(null);
  useEffect(() => { const element = box.current; element.showModal(); return () => element.close(); }, []);
  return html`<dialog ref=${box} aria-label=${title} onCancel=${(event) => { event.preventDefault(); onClose(); }}>
    <h2>${title}</h2>${children}</dialog>`;
}

// A dialog that does something: shows the error, or calls `onDone` with the answer.
export function ActionDialog({ title, action, label, danger, ready = true, onClose, onDone, children }) {
  const [error, setError] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true); setError(null);
    try { onDone(await action()); } catch (problem) { setError(problem); setBusy(false); }
  };
  return html`<${Dialog} title=${title} onClose=${onClose}><form onSubmit=${submit}>${children}<${Problem} error=${error} />
    <div class="row"><button type="submit" class=${danger ? "danger" : "main"} disabled=${isBusy || !ready}>${isBusy ? t("state.working") : label}</button>
    <button type="button" onClick=${onClose}>${t("action.cancel")}</button></div></form><//>`;
}

// For what cannot be undone: its name has to be typed. `action` takes what was typed; `command` is shown where it is given.
export function ConfirmDialog({ title, label = title, name, lost, command, action, onClose, onDone }) {
  const [typed, setTyped] = useState("");
  return html`<${ActionDialog} title=${title} label=${label} danger ready=${typed === name} action=${() => action(typed)} onClose=${onClose} onDone=${onDone}>
    <p>${lost}</p><label class="field">${t("action.confirm", { name: visible(name) })}<input autocomplete="off" value=${typed} onInput=${(e) => setTyped(e.target.value)} /></label>
    ${command && html`<code>${visible(command)}</code>`}<//>`;
}

// A time series: `times` in epoch ms, `series` as [{label, values}]; never less than a minute of it.
export function Chart({ times, series, label, height = 150 }) {
  const box = useRef(null);
  const chart = useRef(null);
  const shape = series.map((one) => one.label).join("\u0000");
  useEffect(() => {
    const colours = ["#3b82f6", "#d97706", "#16a34a", "#db2777", "#7c3aed", "#0891b2"];
    const axis = { stroke: () => getComputedStyle(box.current).color, grid: { stroke: "#8883", width: 1 }, ticks: { stroke: "#8883", width: 1 } };
    const clock = (u, marks, a, space, step) => marks.map((mark) => moment(mark * 1000, { hour: "2-digit", minute: "2-digit", ...(step < 60 && { second: "2-digit" }) }));
    const options = {
      width: box.current.clientWidth || 640, height, legend: { show: series.length > 1, live: false }, cursor: { show: false },
      scales: { x: { range: (u, first, last) => [Math.min(first, last - 60), last] }, y: { range: (u, low, high) => [0, Math.max(1, high * 1.1)] } },
      axes: [{ ...axis, space: 110, size: 32, values: clock }, { ...axis, size: 60, values: (u, marks) => marks.map((mark) => number(mark, { notation: "compact" })) }],
      series: [{}, ...series.map((one, i) => ({ label: visible(one.label), stroke: colours[i % colours.length], fill: `${colours[i % colours.length]}22`, width: 2, points: { show: times.length < 3 } }))],
    };
    chart.current = new uPlot(options, [[], ...series.map(() => [])], box.current);
    const follow = new ResizeObserver(([{ contentRect }]) => chart.current?.setSize({ width: contentRect.width, height }));
    follow.observe(box.current);
    return () => { follow.disconnect(); chart.current.destroy(); chart.current = null; };
  }, [shape, height, language]);
  useEffect(() => { chart.current?.setData([times.map((ms) => ms / 1000), ...series.map((one) => one.values)]); });
  return html`<figure><figcaption>${label}</figcaption><div class="dim" role="img" aria-label=${label} ref=${box}></div></figure>`;
}

// What a component of ours throws is said, and the rest of the page goes on.
export class Boundary extends Component {
  constructor() { super(); this.state = { error: null }; }
  static getDerivedStateFromError(error) { return { error }; }
  componentDidUpdate(before) { if (before.place !== this.props.place && this.state.error) this.setState({ error: null }); }
  render() { return this.state.error ? html`<${Problem} error=${this.state.error} />` : this.props.children; }
}
