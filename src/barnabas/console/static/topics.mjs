// The list of topics: names first, sizes when they come, only the rows in sight are drawn.
import { html, t, useState, useEffect, useRef, useDocument, useEvents, post, enc, count, size, rate, visible, Loading, Empty, Problem, Command, ActionDialog, rememberedOwn, rememberOwn } from "./kit.mjs";

const ROW = 30;
const SORTS = {
  name: (a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0),
  partitions: (a, b) => b.partitions - a.partitions,
  replicas: (a, b) => b.replicas - a.replicas,
  bytes: (a, b) => b.bytes - a.bytes,
  rate: (a, b) => b.rate - a.rate,
};

const readFavourites = () => new Set(rememberedOwn("favourites"));

function rowsOf(data, sizes, rates, { text, internal, sort, favourites }) {
  const hidden = new Set(internal ? [] : data.internal);
  const wanted = text.toLowerCase();
  const rows = data.names.filter((name) => !hidden.has(name) && name.toLowerCase().includes(wanted)).map((name) => {
    const [partitions, replicas, bytes] = sizes?.[name] ?? [-1, -1, -1];
    return { name, partitions, replicas, bytes, rate: rates?.[name] ?? 0, isFavourite: favourites.has(name) };
  });
  return rows.sort((a, b) => b.isFavourite - a.isFavourite || SORTS[sort](a, b) || SORTS.name(a, b));
}

function List({ rows, sort, onSort, onFavourite }) {
  const box = useRef(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  const look = () => setView({ top: box.current.scrollTop, height: box.current.clientHeight });
  useEffect(() => { look(); addEventListener("resize", look); return () => removeEventListener("resize", look); }, []);
  const first = Math.max(0, Math.floor(view.top / ROW) - 8);
  const last = Math.min(rows.length, Math.ceil((view.top + view.height) / ROW) + 8);
  const head = (name, minor) => html`<span role="columnheader" class=${`${name === "name" ? "" : "num"} ${minor ? "minor" : ""}`} aria-sort=${sort === name ? (name === "name" ? "ascending" : "descending") : "none"}>
    <button onClick=${() => onSort(name)}>${t(`topics.${name}`)}${sort === name ? (name === "name" ? " ▴" : " ▾") : ""}</button></span>`;
  const number = (n, form = count) => (n < 0 ? "…" : form(n));
  return html`<div role="table" aria-label=${t("menu.topics")} aria-rowcount=${rows.length + 1}><div role="row" class="line head">${head("name")}${head("partitions")}${head("replicas", true)}${head("bytes")}${head("rate", true)}</div>
    <div class="list" role="rowgroup" ref=${box} onScroll=${look}><div role="presentation" style=${{ height: `${rows.length * ROW}px` }}></div>
    ${rows.slice(first, last).map((row, i) => html`<div role="row" aria-rowindex=${first + i + 2} class="line" key=${row.name} style=${{ top: `${(first + i) * ROW}px` }}>
      <span role="cell"><button aria-pressed=${row.isFavourite} aria-label=${t("topics.favourite", { name: row.name })} onClick=${() => onFavourite(row.name)}>${row.isFavourite ? "★" : "☆"}</button> <a data-row href="#/topic/${enc(row.name)}">${visible(row.name)}</a></span>
      <span role="cell" class="num">${number(row.partitions)}</span><span role="cell" class="num minor">${number(row.replicas)}</span><span role="cell" class="num">${number(row.bytes, size)}</span><span role="cell" class="num minor">${rate(row.rate)}</span></div>`)}</div></div>`;
}

function Create({ onClose }) {
  const [name, setName] = useState("");
  const [partitions, setPartitions] = useState("");
  const [replicas, setReplicas] = useState("");
  const [settings, setSettings] = useState("");
  const [checked, setChecked] = useState(null);
  const number = (text) => (text === "" ? null : Number(text));
  const body = (dryRun) => ({ name, partitions: number(partitions), replicationFactor: number(replicas), dryRun,
    settings: Object.fromEntries(settings.split("\n").map((line) => line.trim()).filter(Boolean).map((line) => { const at = line.indexOf("="); return at < 0 ? [line, ""] : [line.slice(0, at).trim(), line.slice(at + 1).trim()]; })) });
  const field = (label, value, set, type = "text") => html`<label class="field">${label}<input type=${type} min="1" value=${value} onInput=${(e) => { set(e.target.value); setChecked(null); }} /></label>`;
  const action = async () => (checked ? post("api/topics", body(false)) : post("api/topics", body(true)));
  const done = (answer) => { if (answer.dryRun) setChecked(answer); else location.hash = `#/topic/${enc(name)}`; };
  return html`<${ActionDialog} key=${checked ? "make" : "check"} title=${t("topics.new")} label=${checked ? t("topics.create") : t("action.check")} ready=${name !== ""} action=${action} onClose=${onClose} onDone=${done}>
    ${field(t("topics.name"), name, setName)}${field(t("topics.partitionsOrDefault"), partitions, setPartitions, "number")}${field(t("topics.replicasOrDefault"), replicas, setReplicas, "number")}
    <label class="field">${t("topics.settingsLines")}<textarea class="mono" rows="3" value=${settings} placeholder="retention.ms=86400000" onInput=${(e) => { setSettings(e.target.value); setChecked(null); }}></textarea></label>
    ${checked && html`<p class="good" role="status">${t("state.possible")}</p><code>${visible(checked.command.replace(/ --dry-run/, ""))}</code>`}<//>`;
}

export function Topics({ query, session }) {
  const { data, error } = useDocument("api/topics");
  const sizes = useDocument("api/sizes", 15);
  const { rates } = useEvents("rates");
  const [text, setText] = useState(query.get("like") ?? "");
  const [internal, setInternal] = useState(false);
  const [sort, setSort] = useState("name");
  const [favourites, setFavourites] = useState(readFavourites);
  const [isCreating, setCreating] = useState(false);
  const favour = (name) => {
    const next = new Set(favourites);
    if (!next.delete(name)) next.add(name);
    setFavourites(next);
    rememberOwn("favourites", [...next]);
  };
  const rows = data ? rowsOf(data, sizes.data?.sizes, rates, { text, internal, sort, favourites }) : [];
  return html`<h1>${t("menu.topics")}</h1><${Problem} error=${error} /><${Problem} error=${sizes.error} />
    ${data && html`<div class="row"><input data-search type="search" aria-label=${t("topics.search")} placeholder=${t("topics.search")} value=${text} onInput=${(e) => setText(e.target.value)} />
      <label><input type="checkbox" checked=${internal} onChange=${(e) => setInternal(e.target.checked)} />${t("topics.internal")}</label>
      <span class="dim" role="status" data-count>${t("topics.shown", { n: count(rows.length), all: count(data.names.length) })}</span>
      ${!session.readOnly && html`<button class="main" data-new onClick=${() => setCreating(true)}>${t("topics.new")}</button>`}</div>`}
    ${sizes.data?.missing.length > 0 && html`<p class="warn">${t("topics.missing", { brokers: sizes.data.missing.join(", ") })}</p>`}
    ${!data && !error && html`<${Loading} />`}
    ${data && (rows.length ? html`<${List} rows=${rows} sort=${sort} onSort=${setSort} onFavourite=${favour} />` : html`<${Empty}>${data.names.length ? t("topics.noMatch") : t("topics.none")}
      ${!data.names.length && html`<div><code>barnabas topic create NAME -p 6 ${visible(session.connection.join(" "))}</code></div>`}<//>`)}
    ${isCreating && html`<${Create} onClose=${() => setCreating(false)} />`}<${Command} line=${data?.command} />`;
}
