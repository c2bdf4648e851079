// Brokers with their settings, and quotas.
import { html, t, useEvents, useDocument, count, visible, Loading, Empty, Problem, Command } from "./kit.mjs";
import { Brokers, Disks } from "./overview.mjs";
import { Settings } from "./topic.mjs";

function Quotas() {
  const { data, error } = useDocument("api/quotas");
  const whose = (entity) => Object.entries(entity).map(([kind, name]) => `${kind} ${name === null ? t("quotas.default") : visible(name)}`).join(", ");
  return html`<h2>${t("quotas.title")}</h2><${Problem} error=${error} />${data && (data.quotas.length ? html`<table><thead><tr><th scope="col">${t("quotas.whose")}</th><th scope="col">${t("quotas.quota")}</th><th scope="col" class="num">${t("settings.value")}</th></tr></thead>
    <tbody>${data.quotas.map((row) => html`<tr><td>${whose(row.entity)}</td><td class="mono">${visible(row.quota)}</td><td class="num">${count(row.value)}</td></tr>`)}</tbody></table>` : html`<${Empty}>${t("quotas.none")}<//>`)}<${Command} line=${data?.command} />`;
}

export function BrokersPage() {
  const { overview } = useEvents("overview");
  if (!overview) return html`<h1>${t("brokers.title")}</h1><${Loading} />`;
  return html`<h1>${t("brokers.title")}</h1><${Brokers} rows=${overview.brokers} /><div class="row">${overview.brokers.map((broker) => html`<a key=${broker.id} data-row class="tab" href="#/broker/${broker.id}">${t("brokers.settingsOf", { id: broker.id })}</a>`)}</div>
    ${overview.disks.length > 0 && html`<${Disks} rows=${overview.disks} />`}<${Quotas} />`;
}

export const BrokerPage = ({ name }) => html`<p><a href="#/brokers">${t("brokers.title")}</a> / <b>${visible(name)}</b></p><h1>${t("brokers.settingsOf", { id: visible(name) })}</h1><${Settings} path=${`api/brokers/${encodeURIComponent(name)}/settings`} readOnly />`;
