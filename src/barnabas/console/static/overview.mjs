// The first page: is all well, and if not, what is wrong and what to do.
import { html, t, useEvents, enc, age, count, size, rate, visible, Loading, Empty, Command, Chart, Copy } from "./kit.mjs";

const Health = ({ state }) => state.problems.length
  ? html`<p class="health bad" role="status" data-health="bad"><b>${t("health.bad", { n: state.problems.length })}</b></p>`
  : html`<p class="health good" role="status" data-health="good"><b>${t("health.good", { partitions: count(state.partitions), brokers: count(state.brokers.length) })}</b></p>`;

const Wrong = ({ problem }) => html`<div class="box bad"><b>${t(problem.text, problem.values)}</b> ${t(`${problem.text}.do`)}
  <div class="mono">${problem.subjects.map(visible).join(" ")}${problem.values.n > problem.subjects.length ? " …" : ""}</div>
  <div class="row"><code>${visible(problem.command)}</code><${Copy} text=${problem.command} /></div></div>`;

export const Brokers = ({ rows }) => html`<div class="wide"><table><caption>${t("brokers.title")}</caption><thead><tr><th scope="col">${t("brokers.id")}</th><th scope="col">${t("brokers.address")}</th>
  <th scope="col">${t("brokers.rack")}</th><th scope="col" class="num">${t("brokers.leads")}</th><th scope="col" class="num">${t("brokers.replicas")}</th><th scope="col" class="num">${t("brokers.outOfSync")}</th></tr></thead>
  <tbody>${rows.map((b) => html`<tr key=${b.id}><td>${b.id} ${b.isController && html`<span class="tag">${t("brokers.controller")}</span>`} ${b.isFenced && html`<span class="tag">${t("brokers.fenced")}</span>`}</td>
    <td class="mono">${visible(b.host)}:${b.port}</td><td>${b.rack ? visible(b.rack) : "–"}</td><td class="num">${count(b.leads)}</td><td class="num">${count(b.replicas)}</td>
    <td class=${b.outOfSync ? "num bad" : "num"}>${count(b.outOfSync)}</td></tr>`)}</tbody></table></div>`;

export const Disks = ({ rows }) => html`<div class="wide"><table><caption>${t("disks.title")}</caption><thead><tr><th scope="col">${t("brokers.broker")}</th><th scope="col">${t("disks.path")}</th><th scope="col" class="num">${t("disks.used")}</th>
  <th scope="col" class="num">${t("disks.free")}</th><th scope="col" class="num">${t("disks.total")}</th></tr></thead><tbody>${rows.map((d) => html`<tr key=${d.broker + d.path}><td>${d.broker}</td><td class="mono">${visible(d.path)}
  ${d.error && html`<div class="bad">${visible(d.error)}</div>`}</td><td class="num">${size(d.used)}</td><td class="num">${size(d.usable)}</td><td class="num">${size(d.total)}</td></tr>`)}</tbody></table></div>`;

function Lagging({ rows }) {
  if (!rows.length) return html`<${Empty}>${t("lag.none")}<//>`;
  const trend = (row) => row.before === null || row.before === row.lag ? "→" : row.before < row.lag ? "↗" : "↘";
  return html`<div class="wide"><table><caption>${t("lag.title")}</caption><thead><tr><th scope="col">${t("groups.group")}</th><th scope="col" class="num">${t("groups.lag")}</th><th scope="col" class="num">${t("groups.delay")}</th><th scope="col">${t("groups.trend")}</th></tr></thead>
    <tbody>${rows.map((row) => html`<tr key=${row.group}><td><a data-row href="#/group/${enc(row.group)}">${visible(row.group)}</a></td><td class="num">${count(row.lag)}</td><td class="num">${age(row.delay)}</td><td>${trend(row)}</td></tr>`)}</tbody></table></div>`;
}

export function Overview() {
  const { overview } = useEvents("overview");
  if (!overview) return html`<h1>${t("menu.overview")}</h1><${Loading} />`;
  const tiles = [["brokers.title", overview.brokers.length], ["menu.topics", overview.topics], ["topic.partitions", overview.partitions], ["groups.title", overview.groups]];
  return html`<h1>${t("menu.overview")}</h1><${Health} state=${overview} />${overview.problems.map((one) => html`<${Wrong} key=${one.text} problem=${one} />`)}
    <div class="tiles">${tiles.map(([name, n]) => html`<div class="tile" key=${name}><b>${count(n)}</b>${t(name)}</div>`)}<div class="tile"><b>${rate(overview.rate)}</b>${t("rate.title")}</div></div>
    ${overview.history.length > 1 && html`<${Chart} label=${t("rate.chart")} times=${overview.history.map((p) => p[0])} series=${[{ label: t("rate.title"), values: overview.history.map((p) => p[1]) }]} />`}
    <div class="two"><${Lagging} rows=${overview.lagging} /><${Brokers} rows=${overview.brokers} /></div>${overview.disks.length > 0 && html`<${Disks} rows=${overview.disks} />`}
    <p class="dim">${t("overview.cluster")} <span class="mono">${visible(overview.clusterId ?? "–")}</span> · <span data-controller>${t(overview.controllerEpoch === null ? "overview.controller" : "overview.controllerEpoch", { node: overview.controller ?? "–", epoch: overview.controllerEpoch })}</span> · ${t("overview.took", { seconds: overview.took })}</p><${Command} line=${overview.command} />`;
}
