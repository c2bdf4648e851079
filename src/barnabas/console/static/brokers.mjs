// Brokers with their settings, and quotas.
import { html, t, post, useEvents, useDocument, useState, count, visible, Loading, Empty, Problem, Command, ActionDialog } from "./kit.mjs";
import { Brokers, Disks } from "./overview.mjs";
import { Settings } from "./topic.mjs";

const QUOTAS = ["producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate", "connection_creation_rate"];

function SetQuota({ onClose, onDone }) {
  const [form, setForm] = useState({ kind: "user", name: "", quota: QUOTAS[0], value: "" });
  const put = (name) => (event) => setForm({ ...form, [name]: event.target.value });
  const action = () => post("api/quotas", { entity: { [form.kind]: form.name }, quota: form.quota, value: form.value });
  return html`<${ActionDialog} title=${t("quotas.set")} label=${t("quotas.set")} action=${action} onClose=${onClose} onDone=${onDone}>
    <label class="field">${t("quotas.whose")}<select value=${form.kind} onChange=${put("kind")}>${["user", "client-id", "ip"].map((one) => html`<option value=${one}>${one}</option>`)}</select></label>
    <label class="field">${t("quotas.name")}<input autocomplete="off" value=${form.name} onInput=${put("name")} /></label>
    <label class="field">${t("quotas.quota")}<select value=${form.quota} onChange=${put("quota")}>${QUOTAS.map((one) => html`<option value=${one}>${one}</option>`)}</select></label>
    <label class="field">${t("quotas.value")}<input inputmode="decimal" autocomplete="off" value=${form.value} onInput=${put("value")} /></label><//>`;
}

function Quotas({ session }) {
  const { data, error, reload } = useDocument("api/quotas");
  const [isOpen, setOpen] = useState(false);
  const whose = (entity) => Object.entries(entity).map(([kind, name]) => `${kind} ${name === null ? t("quotas.default") : visible(name)}`).join(", ");
  return html`<h2>${t("quotas.title")}</h2><${Problem} error=${error} />${!data && !error && html`<${Loading} />`}${data && (data.quotas.length ? html`<table><thead><tr><th scope="col">${t("quotas.whose")}</th><th scope="col">${t("quotas.quota")}</th><th scope="col" class="num">${t("settings.value")}</th></tr></thead>
    <tbody>${data.quotas.map((row) => html`<tr><td>${whose(row.entity)}</td><td class="mono">${visible(row.quota)}</td><td class="num">${count(row.value)}</td></tr>`)}</tbody></table>` : html`<${Empty}>${t("quotas.none")}<//>`)}${data && !session.readOnly && html`<div class="row"><button onClick=${() => setOpen(true)}>${t("quotas.set")}</button></div>`}<${Command} line=${data?.command} />${isOpen && html`<${SetQuota} onClose=${() => setOpen(false)} onDone=${() => { setOpen(false); reload(); }} />`}`;
}

export function BrokersPage({ session }) {
  const { overview } = useEvents("overview");
  if (!overview) return html`<h1>${t("brokers.title")}</h1><${Loading} />`;
  return html`<h1>${t("brokers.title")}</h1><${Brokers} rows=${overview.brokers} /><div class="row">${overview.brokers.map((broker) => html`<a key=${broker.id} data-row class="tab" href="#/broker/${broker.id}">${t("brokers.settingsOf", { id: broker.id })}</a>`)}<a data-row class="tab" href="#/broker/default">${t("brokers.settingsOfAll")}</a></div>
    ${overview.disks.length > 0 && html`<${Disks} rows=${overview.disks} />`}<${Quotas} session=${session} />`;
}

// A setting that no broker has of its own is set by its name.
function NewSetting({ path, onClose, onDone }) {
  const [form, setForm] = useState({ name: "", value: "" });
  const put = (name) => (event) => setForm({ ...form, [name]: event.target.value });
  return html`<${ActionDialog} title=${t("brokers.set")} label=${t("brokers.set")} ready=${form.name !== ""} action=${() => post(path, { set: { [form.name.trim()]: form.value } })} onClose=${onClose} onDone=${onDone}>
    <label class="field">${t("settings.name")}<input class="mono" autocomplete="off" value=${form.name} onInput=${put("name")} /></label><label class="field">${t("settings.value")}<input class="mono" autocomplete="off" value=${form.value} onInput=${put("value")} /></label><//>`;
}

export function BrokerPage({ name, session }) {
  const [turn, setTurn] = useState(0);
  const [isOpen, setOpen] = useState(false);
  const path = `api/brokers/${encodeURIComponent(name)}/settings`;
  const title = name === "default" ? t("brokers.settingsOfAll") : t("brokers.settingsOf", { id: visible(name) });
  return html`<p><a href="#/brokers">${t("brokers.title")}</a> / <b>${visible(name)}</b></p><h1>${title}</h1><p class="dim">${t("brokers.changing")}</p>
    ${!session.readOnly && html`<div class="row"><button data-new onClick=${() => setOpen(true)}>${t("brokers.set")}</button></div>`}<${Settings} key=${turn} path=${path} readOnly=${session.readOnly} />
    ${isOpen && html`<${NewSetting} path=${path} onClose=${() => setOpen(false)} onDone=${() => { setOpen(false); setTurn(turn + 1); }} />`}`;
}
