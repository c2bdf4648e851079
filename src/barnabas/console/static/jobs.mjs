// What computes on the cluster: Spark's queries by their checkpoints, streams applications drawn with rates on the arrows.
import { html, t, useDocument, useEvents, enc, count, rate, time, visible, Loading, Empty, Problem, Command } from "./kit.mjs";

const Lag = ({ row }) => html`<td class="num">${count(row.lag)}</td>`;
// A partition that ends before what was read: it is another one by now, and the query will not go on.
const Links = ({ groups }) => groups.map((group, i) => html`${i > 0 && ", "}<a href="#/group/${enc(group)}">${visible(group)}</a>`);

export function Spark() {
  const { data, error, reload } = useDocument("api/spark");
  return html`<h1>${t("menu.spark")}</h1><${Problem} error=${error} />${!data && !error && html`<${Loading} />`}
    ${data && html`<div class="row"><button onClick=${reload}>${t("action.reload")}</button></div>
      ${data.queries.length ? html`<div class="wide"><table><thead><tr><th scope="col">${t("spark.query")}</th><th scope="col" class="num">${t("spark.batch")}</th><th scope="col">${t("spark.finished")}</th><th scope="col" class="num">${t("topic.partitions")}</th><th scope="col" class="num">${t("spark.lag")}</th><th scope="col">${t("spark.groups")}</th></tr></thead>
        <tbody>${data.queries.map((row) => html`<tr key=${row.path}><td><a data-row href="#/query/${enc(row.name)}">${visible(row.name)}</a>${row.isUnfinished && html` <span class="tag">${t("spark.unfinished")}</span>`}${row.error && html`<div class="bad">${visible(row.error)}</div>`}</td><td class="num">${count(row.batch)}</td><td>${time(row.finished)}</td><td class="num">${count(row.partitions)}</td><${Lag} row=${row} /><td><${Links} groups=${row.groups} /></td></tr>`)}</tbody></table></div>`
    : html`<${Empty}>${t("spark.none")} <code>barnabas console --checkpoint DIR</code><//>`}
      ${data.groups.length > 0 && html`<h2>${t("spark.builtIn")}</h2><table><thead><tr><th scope="col">${t("groups.group")}</th><th scope="col" class="num">${t("groups.lag")}</th></tr></thead><tbody>${data.groups.map((row) => html`<tr key=${row.group}><td><a data-row href="#/group/${enc(row.group)}">${visible(row.group)}</a></td><${Lag} row=${row} /></tr>`)}</tbody></table>`}`}`;
}

export function Query({ name }) {
  const { data, error, reload } = useDocument(`api/spark/query?query=${enc(name)}`);
  const tile = (value, text) => html`<div class="tile"><b>${value}</b>${t(text)}</div>`;
  return html`<p><a href="#/spark">${t("menu.spark")}</a> / <b>${visible(name)}</b></p><h1>${visible(name)}</h1><${Problem} error=${error} />${!data && !error && html`<${Loading} />`}
    ${data && html`<div class="tiles">${tile(count(data.query.batch), "spark.batch")}${tile(count(data.query.lag), "spark.lag")}${tile(count(data.query.partitions), "topic.partitions")}</div>
      <p class="dim mono">${visible(data.query.path)}</p><p>${t("spark.finished")}: ${time(data.query.finished)}${data.query.groups.length > 0 && html` · ${t("spark.groups")}: <${Links} groups=${data.query.groups} />`}</p>
      ${data.query.error && html`<p class="box bad" role="alert">${visible(data.query.error)}</p>`}${data.partitions.some((row) => row.beyond) && html`<p class="box bad" role="alert" data-beyond>${t("spark.beyond")}</p>`}${data.query.isUnfinished && html`<p class="warn">${t("spark.unfinished.what")}</p>`}
      <div class="row"><button onClick=${reload}>${t("action.reload")}</button></div>
      ${data.partitions.length > 0 && html`<div class="wide"><table><caption>${t("spark.offsets")}</caption><thead><tr><th scope="col">${t("topics.name")}</th><th scope="col" class="num">${t("topic.partition")}</th>${["position", "planned", "begin", "end", "lag", "lost"].map((one) => html`<th scope="col" class="num">${t(`spark.${one}`)}</th>`)}</tr></thead>
        <tbody>${data.partitions.map((row) => html`<tr key=${`${row.source} ${row.topic} ${row.partition}`}><td><a href="#/topic/${enc(row.topic)}">${visible(row.topic)}</a></td><td class="num">${row.partition}</td>${["position", "planned", "begin", "end", "lag"].map((one) => html`<td class="num ${one === "end" && row.beyond ? "bad" : ""}">${count(row[one])}</td>`)}<td class="num ${row.lost ? "bad" : ""}">${count(row.lost)}</td></tr>`)}</tbody></table></div>`}<${Command} line=${data.command} />`}`;
}

export function Streams() {
  const { data, error } = useDocument("api/streams");
  const { lags } = useEvents("lags");
  return html`<h1>${t("menu.streams")}</h1><${Problem} error=${error} />${!data && !error && html`<${Loading} />`}
    ${data && html`${data.applications.length ? html`<div class="wide"><table><thead><tr><th scope="col">${t("streams.application")}</th><th scope="col">${t("groups.state")}</th><th scope="col">${t("streams.known")}</th><th scope="col" class="num">${t("streams.internal")}</th><th scope="col" class="num">${t("groups.lag")}</th></tr></thead>
      <tbody>${data.applications.map((row) => html`<tr key=${row.application}><td><a data-row href="#/topology/${enc(row.application)}">${visible(row.application)}</a></td><td>${row.state ?? "–"}</td><td>${t(`streams.known.${row.known}`)}</td><td class="num">${count(row.internalTopics)}</td><td class="num">${count(lags?.[row.application]?.lag)}</td></tr>`)}</tbody></table></div>`
    : html`<${Empty}>${t("streams.none")}<//>`}<${Command} line=${data.command} />`}`;
}

const LINE = 17;
const curve = (points) => points.slice(1).reduce((path, [x, y], i) => { const [fromX, fromY] = points[i]; const middle = (fromY + y) / 2; return `${path}C${fromX} ${middle} ${x} ${middle} ${x} ${y}`; }, `M${points[0][0]} ${points[0][1]}`);

function NodeShape({ node }) {
  const isUntold = node.kind === "untold";
  const lines = [isUntold ? t("streams.untold") : node.text, ...node.stores.map((store) => `▤ ${store}`)];
  return html`<g role="img" aria-label=${isUntold ? t("streams.untold") : visible(node.aloud)}><rect class="node ${node.kind}" x=${node.x} y=${node.y} width=${node.width} height=${node.height} rx=${node.kind === "topic" ? node.height / 2 : 6} />
    ${lines.map((line, i) => html`<text x=${node.x + 10} y=${node.y + 20 + i * LINE}>${visible(line)}</text>`)}</g>`;
}

// How fast records pass an arrow: what the group commits of a topic, or what anyone writes there. Null where none is known.
const speed = (arrow, read, written) => (arrow.way === "read" ? read?.[arrow.topic] ?? 0 : arrow.way === "written" ? written?.[arrow.topic] ?? 0 : null);

function Part({ part, read, written }) {
  const known = part.arrows.filter((arrow) => arrow.way);
  return html`<h2>${visible(part.title)}</h2><div class="wide" tabindex="0" role="region" aria-label=${visible(part.title)}><svg class="topology" role="group" aria-label=${visible(part.title)} width=${part.width + 150} height=${part.height + 4} viewBox=${`-2 -2 ${part.width + 152} ${part.height + 4}`}>
    <defs>${["idle", "busy"].map((kind) => html`<marker id=${`head-${kind}`} class=${kind} viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z" /></marker>`)}</defs>
    ${part.arrows.map((arrow) => html`<path class="edge ${speed(arrow, read, written) ? "busy" : "idle"}" d=${curve(arrow.path)} />`)}
    ${part.nodes.map((node) => html`<${NodeShape} key=${node.id} node=${node} />`)}
    ${known.map((arrow) => { const [x, y] = arrow.path.at(-1); const [fromX, fromY] = arrow.path.at(-2); return html`<text class="rate" x=${(x + fromX) / 2 + 6} y=${(y + fromY) / 2 + 4} aria-hidden="true">${rate(speed(arrow, read, written))}</text>`; })}</svg></div>
    ${known.length > 0 && html`<table><caption>${t("streams.rates")}</caption><thead><tr><th scope="col">${t("streams.from")}</th><th scope="col" class="num">${t("streams.rate")}</th><th scope="col">${t("streams.what")}</th></tr></thead><tbody>${known.map((arrow) => html`<tr key=${arrow.aloud}><td>${visible(arrow.aloud)}</td><td class="num">${rate(speed(arrow, read, written))}</td><td>${t(`streams.${arrow.way}`)}</td></tr>`)}</tbody></table>`}`;
}

export function Topology({ name }) {
  const { data, error } = useDocument(`api/streams/topology?application=${enc(name)}`);
  const { reads, rates } = useEvents("reads,rates");
  return html`<p><a href="#/streams">${t("menu.streams")}</a> / <b>${visible(name)}</b></p><h1>${visible(name)}</h1><${Problem} error=${error} />${!data && !error && html`<${Loading} />`}
    ${data && html`<p class="dim">${t(`streams.about.${data.known}`)}</p><p><a href="#/group/${enc(name)}">${t("streams.group")}</a></p>
      ${data.parts.length ? data.parts.map((part) => html`<${Part} key=${part.title} part=${part} read=${reads?.[name]} written=${rates} />`) : html`<${Empty}>${t("streams.noParts")}<//>`}<${Command} line=${data.command} />`}`;
}
