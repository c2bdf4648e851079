// One topic: partitions, settings with where each comes from, and what can be changed.
import { html, t, useState, useDocument, useEvents, post, enc, count, size, rate, visible, hint, Loading, Problem, Command, ActionDialog, ConfirmDialog } from "./kit.mjs";
import { Records } from "./records.mjs";

const TABS = { records: "topic.recordsTab", partitions: "topic.partitions", settings: "topic.settings" };

const Partitions = ({ rows }) => html`<div class="wide"><table><caption class="visually-hidden">${t("topic.partitions")}</caption><thead><tr>${["partition", "leader", "replicas", "isr"].map((name) => html`<th scope="col">${t(`topic.${name}`)}</th>`)}
  ${["first", "end", "records", "bytes"].map((name) => html`<th scope="col" class="num">${t(`topic.${name}`)}</th>`)}</tr></thead><tbody>${rows.map((p) => html`<tr key=${p.partition}><td>${p.partition}</td>
  <td class=${p.leader === null ? "bad" : ""}>${p.leader ?? t("topic.offline")}</td><td>${p.replicas.join(", ")}</td><td class=${p.isr.length < p.replicas.length ? "bad" : ""}>${p.isr.join(", ")}</td>
  <td class="num">${count(p.first)}</td><td class="num">${count(p.end)}</td><td class="num">${p.end === null ? "–" : count(p.end - p.first)}</td><td class="num">${size(p.bytes)}</td></tr>`)}</tbody></table></div>`;

const isLink = (text) => /^https:\/\/[^\s<>"]+$/.test(text);
const Words = ({ text }) => text.split(/(\s+)/).map((word) => isLink(word) ? html`<a href=${word} target="_blank" rel="noreferrer noopener">${word}</a>` : visible(word));

function Setting({ row, isOpen, onOpen, onEdit, readOnly }) {
  const value = row.sensitive ? t("settings.secret") : row.value === null ? "–" : visible(row.value);
  return html`<tr><td><button aria-expanded=${isOpen} onClick=${onOpen}>${isOpen ? "▾" : "▸"}</button> <span class=${row.isDefault ? "" : "changed"}>${visible(row.name)}</span></td>
    <td class="mono">${value || "\u00a0"}${!row.sensitive && hint(row.name, row.value) && html` <span class="dim">${hint(row.name, row.value)}</span>`}</td><td>${t(`source.${row.source}`)}</td><td>${!readOnly && !row.readOnly && html`<button aria-label=${`${t("action.change")} ${row.name}`} onClick=${onEdit}>${t("action.change")}</button>`}</td></tr>
    ${isOpen && html`<tr><td colspan="4"><div class="box">${row.documentation ? html`<${Words} text=${row.documentation} />` : t("settings.noDocumentation")}
      ${row.synonyms.length > 0 && html`<table><caption>${t("settings.order")}</caption><tbody>${row.synonyms.map((s) => html`<tr><td>${t(`source.${s.source}`)}</td><td>${visible(s.name)}</td><td class="mono">${row.sensitive ? t("settings.secret") : visible(s.value ?? "–")}</td></tr>`)}</tbody></table>`}</div></td></tr>`}`;
}

function EditSetting({ path, row, onClose, onDone }) {
  const [value, setValue] = useState(row.value ?? "");
  const [isBack, setBack] = useState(false);
  const action = () => post(path, isBack ? { unset: [row.name] } : { set: { [row.name]: value } });
  return html`<${ActionDialog} title=${`${t("action.change")}: ${row.name}`} label=${t("action.change")} action=${action} onClose=${onClose} onDone=${onDone}>
    <label class="field">${visible(row.name)}<input class="mono" disabled=${isBack} value=${value} onInput=${(e) => setValue(e.target.value)} /></label>
    ${row.source.startsWith("DYNAMIC_") && html`<label><input type="checkbox" checked=${isBack} onChange=${(e) => setBack(e.target.checked)} />${t("settings.back")}</label>`}
    ${row.documentation && html`<p class="dim"><${Words} text=${row.documentation} /></p>`}<//>`;
}

export function Settings({ path, readOnly }) {
  const { data, error, reload } = useDocument(path);
  const [text, setText] = useState("");
  const [changedOnly, setChangedOnly] = useState(false);
  const [open, setOpen] = useState(null);
  const [edited, setEdited] = useState(null);
  if (!data) return html`<${Problem} error=${error} />${!error && html`<${Loading} />`}`;
  const rows = data.settings.filter((row) => row.name.includes(text.toLowerCase()) && !(changedOnly && row.isDefault));
  return html`<div class="row"><input data-search type="search" aria-label=${t("settings.search")} placeholder=${t("settings.search")} value=${text} onInput=${(e) => setText(e.target.value)} />
    <label><input type="checkbox" checked=${changedOnly} onChange=${(e) => setChangedOnly(e.target.checked)} />${t("settings.changedOnly")}</label></div>
    <div class="wide"><table><thead><tr><th scope="col">${t("settings.name")}</th><th scope="col">${t("settings.value")}</th><th scope="col">${t("settings.source")}</th><th><span class="visually-hidden">${t("action.change")}</span></th></tr></thead>
    <tbody>${rows.map((row) => html`<${Setting} key=${row.name} row=${row} readOnly=${readOnly} isOpen=${open === row.name} onOpen=${() => setOpen(open === row.name ? null : row.name)} onEdit=${() => setEdited(row)} />`)}</tbody></table></div>
    ${edited && html`<${EditSetting} path=${path} row=${edited} onClose=${() => setEdited(null)} onDone=${() => { setEdited(null); reload(); }} />`}<${Command} line=${data.command} />`;
}

function Lose({ kind, data, onClose, onDone }) {
  const action = (confirm) => post(`api/topics/${enc(data.topic)}/${kind}`, { confirm });
  const lost = t(`topic.${kind}.lost`, { topic: visible(data.topic), records: count(data.records), bytes: size(data.bytes) });
  return html`<${ConfirmDialog} title=${t(`topic.${kind}`)} name=${data.topic} lost=${lost} command=${data.commands[kind]} action=${action} onClose=${onClose} onDone=${onDone} />`;
}

function More({ data, onClose, onDone }) {
  const [total, setTotal] = useState(data.partitions.length + 1);
  const action = () => post(`api/topics/${enc(data.topic)}/partitions`, { total: Number(total) });
  return html`<${ActionDialog} title=${t("topic.more")} label=${t("topic.more")} action=${action} onClose=${onClose} onDone=${onDone}><p>${t("topic.more.keys")}</p>
    <label class="field">${t("topic.total")}<input type="number" min=${data.partitions.length + 1} value=${total} onInput=${(e) => setTotal(e.target.value)} /></label><//>`;
}

export function Topic({ name, query, session }) {
  const { data, error, reload } = useDocument(`api/topics/${enc(name)}`);
  const { rates } = useEvents("rates");
  const [dialog, setDialog] = useState(null);
  const tab = Object.hasOwn(TABS, query.get("tab")) ? query.get("tab") : "partitions";
  const close = () => setDialog(null);
  const done = () => { close(); reload(); };
  return html`<p><a href="#/topics">${t("menu.topics")}</a> / <b>${visible(name)}</b></p><h1>${visible(name)} ${data?.internal && html`<span class="tag">${t("topic.internal")}</span>`}</h1><${Problem} error=${error} />${!data && !error && html`<${Loading} />`}
    ${data && html`<div class="tiles"><div class="tile"><b>${count(data.partitions.length)}</b>${t("topic.partitions")}</div><div class="tile"><b>${count(data.records)}</b>${t("topic.records")}</div>
      <div class="tile"><b>${size(data.bytes)}</b>${t("topic.bytes")}</div><div class="tile"><b>${rate(rates?.[name])}</b>${t("topics.rate")}</div></div>
      <div class="row bar"><nav aria-label=${t("topic.tabs")} class="row">${Object.entries(TABS).map(([one, text]) => html`<a key=${one} class="tab" aria-current=${tab === one ? "page" : undefined} href="#/topic/${enc(name)}?tab=${one}">${t(text)}</a>`)}</nav>
        <button onClick=${reload}>${t("action.reload")}</button>${!session.readOnly && html`<button onClick=${() => setDialog("more")}>${t("topic.more")}</button><button class="danger" onClick=${() => setDialog("empty")}>${t("topic.empty")}</button><button class="danger" onClick=${() => setDialog("delete")}>${t("topic.delete")}</button>`}</div>
      ${tab === "records" && html`<${Records} topic=${name} query=${query} session=${session} command=${data.commands.consume} />`}
      ${tab === "partitions" && html`<${Partitions} rows=${data.partitions} /><p class="dim">${t("topic.id")} <span class="mono">${data.id ?? "–"}</span></p><${Command} line=${data.commands.describe} />`}${tab === "settings" && html`<${Settings} path=${`api/topics/${enc(name)}/settings`} readOnly=${session.readOnly} />`}
      ${dialog === "more" && html`<${More} data=${data} onClose=${close} onDone=${done} />`}${dialog === "empty" && html`<${Lose} kind="empty" data=${data} onClose=${close} onDone=${done} />`}
      ${dialog === "delete" && html`<${Lose} kind="delete" data=${data} onClose=${close} onDone=${() => { location.hash = "#/topics"; }} />`}`}`;
}
