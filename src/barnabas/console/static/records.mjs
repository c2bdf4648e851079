// Records of a topic: read from a place, filtered on the server, live; produced, exported, each with a link.
import { Component } from "./vendor/preact.mjs";
import { html, t, currentLanguage, useState, useEffect, useMemo, useRef, useDocument, post, enc, count, size, time, instant, visible, Loading, Empty, Problem, Command, Copy, ActionDialog, rememberedOwn, rememberOwn } from "./kit.mjs";

const FORMS = ["auto", "text", "json", "avro", "protobuf", "msgpack", "hex"];
// The forms that there are, messages of Protobuf among them, and what "auto" means for this topic.
function FormChoice({ topic, side, label, chosen, onChoose }) {
  const { data, error } = useDocument(`api/topics/${enc(topic)}/forms`);
  const means = data && data.auto[side] !== "auto" ? ` (${data.auto[side]})` : "";
  return html`<label>${label}<select value=${chosen} onChange=${(e) => onChoose(e.target.value)}>${(data?.forms ?? [...new Set([...FORMS, chosen])]).map((one) => html`<option value=${one}>${visible(one)}${one === "auto" ? visible(means) : ""}</option>`)}</select></label>${side === "key" && html`<${Problem} error=${error} />`}`;
}
const EXPORTS = ["ndjson", "csv", "parquet"];
const KEPT = 1000;

export function Side({ side }) {
  if (side.form === "null") return html`<i class="dim">null</i>`;
  return html`<span class="mono" data-form=${side.form}>${visible(side.text)}${side.isCut ? "…" : ""}</span>${side.problem && html`<div class="warn">${visible(side.problem)}</div>`}`;
}

const TOKENS = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;
// A document, indented and in colours. Its tokens stay as they came: the browser's numbers have not all digits.
function Pretty({ side }) {
  const text = side.text ?? "";
  try { if (side.isCut || text.length > 50000 || !["json", "avro", "msgpack", "protobuf"].includes(side.form)) return visible(text); JSON.parse(text); } catch { return visible(text); }
  const tokens = text.match(TOKENS);
  let depth = 0;
  const line = () => `\n${"  ".repeat(depth)}`;
  return tokens.map((token, i) => {
    if (token === "{" || token === "[") { if ("}]".includes(tokens[i + 1])) return token; depth++; return token + line(); }
    if (token === "}" || token === "]") { if ("{[".includes(tokens[i - 1])) return token; depth--; return line() + token; }
    if (token === ",") return token + line();
    if (token === ":") return ": ";
    return html`<span class=${tokens[i + 1] === ":" ? "n1" : token[0] === '"' ? "n2" : "n3"}>${visible(token)}</span>`;
  });
}

// A scan as the server streams it; `start` begins another one, `stop` ends it.
function useScan() {
  const [state, setState] = useState({ rows: [], progress: null, ended: null, error: null, isRunning: false });
  const source = useRef(null);
  const stop = () => { if (source.current) { source.current.close(); source.current = null; setState((old) => ({ ...old, isRunning: false, ended: old.ended ?? "cancelled" })); } };
  useEffect(() => () => { source.current?.close(); source.current = null; }, []);
  const start = (path, isLive) => {
    source.current?.close();
    setState({ rows: [], progress: null, ended: null, error: null, isRunning: true });
    const events = new EventSource(path);
    source.current = events;
    const on = (kind, change) => events.addEventListener(kind, (event) => { const data = JSON.parse(event.data); setState((old) => ({ ...old, ...change(data, old) })); });
    const end = () => { events.close(); if (source.current === events) source.current = null; };
    on("records", (rows, old) => ({ rows: isLive ? [...rows.reverse(), ...old.rows].slice(0, KEPT) : [...old.rows, ...rows].slice(0, KEPT) }));
    on("progress", (progress) => ({ progress }));
    on("done", (ended) => { end(); return { ended, isRunning: false }; });
    on("failed", (error) => { end(); return { error, isRunning: false }; });
    // A refusal is no stream: its text has to be asked for once more.
    events.onerror = () => {
      end();
      fetch(path).then((answer) => answer.ok ? null : answer.json()).catch(() => ({ error: "ConsoleGone", message: t("error.consoleGone") }))
        .then((error) => setState((old) => ({ ...old, error: error ?? { error: "StreamEnded", message: t("records.streamEnded") }, isRunning: false })));
    };
  };
  return { ...state, start, stop };
}

function Produce({ topic, like, onClose }) {
  const [key, setKey] = useState(like?.key.text ?? "");
  const [keyForm, setKeyForm] = useState(like && like.key.form === "null" ? "null" : like?.key.form === "hex" ? "hex" : "text");
  const [value, setValue] = useState(like?.value.text ?? "");
  const [valueForm, setValueForm] = useState(like && like.value.form === "null" ? "null" : like?.value.form === "hex" ? "hex" : "text");
  const [headers, setHeaders] = useState((like?.headers ?? []).map(([name, side]) => `${name}=${side.text ?? ""}`).join("\n"));
  const [partition, setPartition] = useState("");
  const [done, setDone] = useState(null);
  const body = () => ({ key, keyForm, value, valueForm, partition: partition === "" ? null : Number(partition),
    headers: Object.fromEntries(headers.split("\n").filter(Boolean).map((line) => { const at = line.indexOf("="); return at < 0 ? [line, ""] : [line.slice(0, at), line.slice(at + 1)]; })) });
  const form = (label, chosen, set) => html`<select aria-label=${label} value=${chosen} onChange=${(e) => set(e.target.value)}>${["text", "hex", "null"].map((one) => html`<option value=${one}>${one}</option>`)}</select>`;
  return html`<${ActionDialog} key=${done?.link} title=${t("records.produce")} label=${t("records.send")} action=${() => post(`api/topics/${enc(topic)}/records`, body())} onClose=${onClose} onDone=${setDone}>
    <label class="field">${t("records.key")}<input class="mono" disabled=${keyForm === "null"} value=${key} onInput=${(e) => setKey(e.target.value)} /></label>${form(t("records.keyForm"), keyForm, setKeyForm)}
    <label class="field">${t("records.value")}<textarea class="mono" rows="6" disabled=${valueForm === "null"} value=${value} onInput=${(e) => setValue(e.target.value)}></textarea></label>${form(t("records.valueForm"), valueForm, setValueForm)}
    <label class="field">${t("records.headerLines")}<textarea class="mono" rows="2" value=${headers} onInput=${(e) => setHeaders(e.target.value)}></textarea></label>
    <label class="field">${t("records.partitionOrAny")}<input type="number" min="0" value=${partition} onInput=${(e) => setPartition(e.target.value)} /></label>
    ${done && html`<p class="good" role="status"><a href=${done.link}>${t("records.sent", { partition: done.partition, offset: count(done.offset) })}</a></p><code>${visible(done.command)}</code>`}<//>`;
}

// Records that the reading finds, sent to another topic as they are; counted first.
function Redrive({ topic, reading, onClose }) {
  const [to, setTo] = useState("");
  const [keepPartition, setKeep] = useState(false);
  const [answer, setAnswer] = useState(null);
  const isCounted = answer?.dryRun === true;
  const action = () => post(`api/topics/${enc(topic)}/redrive`, { ...reading, to, keepPartition, dryRun: !isCounted });
  return html`<${ActionDialog} key=${answer ? `${answer.dryRun} ${answer.sent}` : ""} title=${t("records.redrive")} label=${isCounted ? t("records.redrive.send", { n: count(answer.found) }) : t("records.redrive.count")} ready=${to !== "" && (!isCounted || answer.found > 0)} danger=${isCounted} action=${action} onClose=${onClose} onDone=${setAnswer}>
    <p>${t("records.redrive.what", { from: visible(reading.from) })} ${reading.filter && html`<code>${visible(reading.filter)}</code>`}</p>
    <label class="field">${t("records.redrive.to")}<input autocomplete="off" value=${to} onInput=${(e) => { setTo(e.target.value); setAnswer(null); }} /></label>
    <label><input type="checkbox" checked=${keepPartition} onChange=${(e) => { setKeep(e.target.checked); setAnswer(null); }} />${t("records.redrive.keep")}</label>
    ${answer && html`<p role="status" class=${answer.error ? "bad" : "good"}>${t(isCounted ? "records.redrive.found" : "records.redrive.sent", { n: count(isCounted ? answer.found : answer.sent), of: count(answer.found) })} ${t(`records.ended.${answer.ended}`)} ${answer.error && visible(answer.error)}</p>`}<//>`;
}

// Readings that this browser keeps for a topic: a name, and the words of the reading.
function Saved({ topic, words, onChoose }) {
  const [all, setAll] = useState(() => rememberedOwn(`readings ${topic}`));
  const [isNaming, setNaming] = useState(false);
  const [name, setName] = useState("");
  const keep = (rows) => { setAll(rows); rememberOwn(`readings ${topic}`, rows); };
  const save = async () => { keep([...all.filter((one) => one.name !== name), { name, words }].slice(-50)); };
  const choose = (event) => { const [what, at] = event.target.value.split(" "); event.target.value = ""; if (what === "save") setNaming(true); else if (what === "drop") keep(all.filter((one, i) => i !== Number(at))); else if (what) onChoose(all[Number(at)].words); };
  return html`<select aria-label=${t("records.saved")} value="" onChange=${choose}><option value="">${t("records.saved")}</option>${all.map((one, i) => html`<option value=${`use ${i}`}>${visible(one.name)}</option>`)}<option value="save">${t("records.save")}</option>${all.map((one, i) => html`<option value=${`drop ${i}`}>${t("records.forget", { name: visible(one.name) })}</option>`)}</select>
    ${isNaming && html`<${ActionDialog} title=${t("records.save")} label=${t("action.save")} ready=${name !== ""} action=${save} onClose=${() => setNaming(false)} onDone=${() => { setNaming(false); setName(""); }}><label class="field">${t("records.savedName")}<input autocomplete="off" value=${name} onInput=${(e) => setName(e.target.value)} /></label><code>${visible(words.filter || words.from)}</code><//>`}`;
}

const Strip = ({ scan }) => scan.progress && html`<p role="status" class="dim" data-ended=${scan.ended ?? ""}>${t("records.progress", { scanned: count(scan.progress.scanned), bytes: size(scan.progress.bytes), matched: count(scan.progress.matched), seconds: scan.progress.seconds.toFixed(1) })}
  ${scan.progress.left ? ` ${t("records.left", { n: count(scan.progress.left) })}` : ""} ${scan.ended ? html`<b>${t(`records.ended.${scan.ended}`)}</b>` : ""}</p>`;

// One record, drawn again only when it or the language is another one.
class Row extends Component {
  shouldComponentUpdate(next) { return next.row !== this.props.row || next.language !== this.props.language || next.hasHeaders !== this.props.hasHeaders; }
  render({ row, hasHeaders }) {
    return html`<tr role="row"><td role="cell" class="num">${row.partition}</td><td role="cell" class="num"><a data-row href=${row.link}>${count(row.offset)}</a></td><td role="cell" class="when">${instant(row.timestamp)}</td><td role="cell"><${Side} side=${row.key} /></td><td role="cell"><${Side} side=${row.value} /></td>
      ${hasHeaders && html`<td role="cell">${row.headers.map(([name, side]) => html`<div><b>${visible(name)}</b> <${Side} side=${side} /></div>`)}</td>`}</tr>`;
  }
}

const PIECE = 40;
// How many of so many rows are drawn: some more with each frame, so that the page answers in between.
function usePieces(all) {
  const [drawn, setDrawn] = useState(PIECE);
  useEffect(() => {
    if (all < drawn) { setDrawn(Math.max(PIECE, all)); return undefined; }
    if (all === drawn) return undefined;
    const next = requestAnimationFrame(() => setDrawn(drawn + PIECE));
    return () => cancelAnimationFrame(next);
  }, [all, drawn]);
  return Math.min(all, drawn);
}

function Rows({ rows, language }) {
  const drawn = usePieces(rows.length);
  const hasHeaders = rows.some((row) => row.headers.length > 0);
  const columns = [["topic.partition", "num"], ["records.offset", "num"], ["records.time"], ["records.key"], ["records.value"], ...(hasHeaders ? [["records.headers"]] : [])];
  return html`<div class="wide"><table class="records" role="table" aria-rowcount=${rows.length + 1} data-drawn=${drawn}><caption class="visually-hidden">${t("topic.recordsTab")}</caption><thead role="rowgroup"><tr role="row">${columns.map(([name, form], i) => html`<th scope="col" role="columnheader" class=${`c${i} ${form ?? ""}`}>${t(name)}</th>`)}</tr></thead>
  <tbody role="rowgroup">${rows.slice(0, drawn).map((row) => html`<${Row} key=${`${row.partition}-${row.offset}`} row=${row} language=${language} hasHeaders=${hasHeaders} />`)}</tbody></table></div>`;
}

export function Records({ topic, query, session, command }) {
  const [start, setStart] = useState(query.get("from") ?? "-50");
  const [filter, setFilter] = useState(query.get("filter") ?? "");
  const [partitions, setPartitions] = useState(query.get("partitions") ?? "");
  const [limit, setLimit] = useState(query.get("limit") ?? "500");
  const [keyForm, setKeyForm] = useState(query.get("keyForm") ?? "auto");
  const [valueForm, setValueForm] = useState(query.get("valueForm") ?? "auto");
  const [isLive, setLive] = useState(false);
  const [isProducing, setProducing] = useState(false);
  const [isRedriving, setRedriving] = useState(false);
  const scan = useScan();
  const words = (live) => new URLSearchParams({ from: live ? "end" : start, filter, partitions, limit: live ? KEPT : limit, keyForm, valueForm, live: String(live) });
  const read = (event) => {
    event?.preventDefault();
    // The place in the address, so that the link leads to the same reading.
    history.replaceState(null, "", `#/topic/${enc(topic)}?${new URLSearchParams({ tab: "records", from: start, filter, partitions, limit, keyForm, valueForm })}`);
    scan.start(`api/topics/${enc(topic)}/scan?${words(isLive)}`, isLive);
  };
  useEffect(() => { read(); }, []);
  // The same element is not drawn again: a thousand rows must not wait behind each key that is pressed.
  const table = useMemo(() => html`<${Rows} rows=${scan.rows} language=${currentLanguage()} />`, [scan.rows, currentLanguage()]);
  const current = { from: start, filter, partitions, limit, keyForm, valueForm };
  const use = (saved) => { setLive(false); setStart(saved.from); setFilter(saved.filter); setPartitions(saved.partitions); setLimit(saved.limit); setKeyForm(saved.keyForm); setValueForm(saved.valueForm); };
  const choose = (side, label, chosen, set) => html`<${FormChoice} topic=${topic} side=${side} label=${label} chosen=${chosen} onChoose=${set} />`;
  const save = (form) => { location.assign(`api/topics/${enc(topic)}/export?${new URLSearchParams([...words(false), ["form", form], ["limit", "1000000"]].filter(([name], i, all) => all.findLastIndex(([other]) => other === name) === i))}`); };
  return html`<form class="row" onSubmit=${read}><label>${t("records.from")}<input list="places" size="14" disabled=${isLive} value=${start} onInput=${(e) => setStart(e.target.value)} /></label>
    <datalist id="places">${["newest:50", "beginning", "-50", "-1000", "end", "-5m", "-1h", "-1d"].map((one) => html`<option value=${one} />`)}</datalist>
    <label>${t("records.partitions")}<input size="6" placeholder=${t("records.all")} value=${partitions} onInput=${(e) => setPartitions(e.target.value)} /></label>
    <label>${t("records.limit")}<input type="number" min="1" max="1000" disabled=${isLive} value=${limit} onInput=${(e) => setLimit(e.target.value)} /></label>
    ${choose("key", t("records.keyForm"), keyForm, setKeyForm)}${choose("value", t("records.valueForm"), valueForm, setValueForm)}<label><input type="checkbox" checked=${isLive} onChange=${(e) => setLive(e.target.checked)} />${t("records.live")}</label>
    <input data-search class="mono" size="50" aria-label=${t("records.filter")} placeholder='value.order.total > 100 and header.source = "web"' value=${filter} onInput=${(e) => setFilter(e.target.value)} />
    <button type="submit" class="main">${t("records.read")}</button>${scan.isRunning && html`<button type="button" onClick=${scan.stop}>${t("records.stop")}</button>`}
    <select aria-label=${t("records.export")} value="" onChange=${(e) => { save(e.target.value); e.target.value = ""; }}><option value="">${t("records.export")}</option>${EXPORTS.map((one) => html`<option value=${one}>${one}</option>`)}</select>
    <${Saved} topic=${topic} words=${current} onChoose=${use} />
    ${!session.readOnly && html`<button type="button" data-new onClick=${() => setProducing(true)}>${t("records.produce")}</button><button type="button" disabled=${isLive} onClick=${() => setRedriving(true)}>${t("records.redrive")}</button>`}</form>
    <${Problem} error=${scan.error} />${scan.isRunning && !scan.progress && !scan.rows.length && html`<${Loading} />`}<${Strip} scan=${scan} />${scan.rows.length > 0 && table}
    ${!scan.rows.length && !scan.isRunning && !scan.error && html`<${Empty}>${filter ? t("records.noMatch") : t("records.none")}<//>`}
    ${isProducing && html`<${Produce} topic=${topic} onClose=${() => setProducing(false)} />`}<${Command} line=${command} />
    ${isRedriving && html`<${Redrive} topic=${topic} reading=${{ from: start, filter, partitions: partitions.split(",").map((one) => one.trim()).filter(Boolean) }} onClose=${() => setRedriving(false)} />`}`;
}

const Whole = ({ name, side }) => html`<h2>${name} <span class="tag">${side.form}</span> <span class="dim">${size(side.bytes)}</span> ${side.text !== null && html`<${Copy} text=${side.text} />`}</h2>
  ${side.problem && html`<p class="warn">${visible(side.problem)}</p>`}${side.form === "null" ? html`<i class="dim">null</i>` : html`<pre class="box"><${Pretty} side=${side} />${side.isCut ? "…" : ""}</pre>`}`;

// #/record/TOPIC/PARTITION/OFFSET
export function RecordPage({ name, session }) {
  const [topic, partition, offset] = name.split("/");
  const [keyForm, setKeyForm] = useState("auto");
  const [valueForm, setValueForm] = useState("auto");
  const [isProducing, setProducing] = useState(false);
  const { data, error } = useDocument(`api/topics/${enc(topic)}/records/${enc(partition ?? "")}/${enc(offset ?? "")}?keyForm=${keyForm}&valueForm=${valueForm}`);
  const choose = (side, label, chosen, set) => html`<${FormChoice} topic=${topic} side=${side} label=${label} chosen=${chosen} onChoose=${set} />`;
  const place = (to) => `#/record/${enc(topic)}/${partition}/${to}`;
  return html`<p><a href="#/topic/${enc(topic)}?tab=records">${visible(topic)}</a> / ${partition} / <b>${offset}</b></p><h1>${t("records.one", { topic: visible(topic), partition: visible(partition ?? ""), offset: visible(offset ?? "") })}</h1>
    <div class="row">${Number(offset) > 0 && html`<a href=${place(Number(offset) - 1)}>← ${t("records.before")}</a>`}<a href=${place(Number(offset) + 1)}>${t("records.after")} →</a>${choose("key", t("records.keyForm"), keyForm, setKeyForm)}${choose("value", t("records.valueForm"), valueForm, setValueForm)}
      ${data && !session.readOnly && html`<button data-new onClick=${() => setProducing(true)}>${t("records.produceLike")}</button>`}</div><${Problem} error=${error} />${!data && !error && html`<${Loading} />`}
    ${data && html`<p>${time(data.timestamp)} <span class="dim">${data.timestampType === 1 ? t("records.appendTime") : t("records.createTime")}</span></p><${Whole} name=${t("records.key")} side=${data.key} /><${Whole} name=${t("records.value")} side=${data.value} />
      <h2>${t("records.headers")}</h2>${data.headers.length ? html`<table><tbody>${data.headers.map(([one, side]) => html`<tr><th scope="row">${visible(one)}</th><td><${Side} side=${side} /></td></tr>`)}</tbody></table>` : html`<p class="dim">–</p>`}<${Command} line=${data.command} />`}
    ${isProducing && html`<${Produce} topic=${topic} like=${data} onClose=${() => setProducing(false)} />`}`;
}
