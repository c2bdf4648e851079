// What this console was asked to change, by whom, and what came of it.
import { html, t, useDocument, useState, time, visible, Loading, Empty, Problem } from "./kit.mjs";

const said = (fields) => Object.entries(fields).map(([name, value]) => `${name} ${Array.isArray(value) ? value.join(", ") : value}`).join(" · ");

export function Changes() {
  const { data, error, reload } = useDocument("api/changes");
  const [text, setText] = useState("");
  const rows = (data?.changes ?? []).filter((row) => `${row.path} ${said(row.fields)}`.toLowerCase().includes(text.toLowerCase()));
  return html`<h1>${t("menu.changes")}</h1><p class="dim">${t("changes.what")}</p><${Problem} error=${error} />${!data && !error && html`<${Loading} />`}
    ${data && html`<div class="row"><input data-search type="search" aria-label=${t("changes.search")} placeholder=${t("changes.search")} value=${text} onInput=${(e) => setText(e.target.value)} /><button onClick=${reload}>${t("action.reload")}</button></div>
      ${rows.length ? html`<div class="wide"><table><thead><tr><th scope="col">${t("changes.at")}</th><th scope="col">${t("changes.who")}</th><th scope="col">${t("changes.path")}</th><th scope="col">${t("changes.fields")}</th><th scope="col" class="num">${t("changes.status")}</th></tr></thead>
        <tbody>${rows.map((row, i) => html`<tr key=${`${row.at} ${i}`}><td data-row tabindex="-1">${time(row.at)}</td><td>${row.user ? t("changes.user", { user: visible(row.user), address: visible(row.address) }) : row.login ? t("changes.login", { n: row.login, address: visible(row.address) }) : visible(row.address)}</td><td class="mono">${visible(row.path.replace("/api/", ""))}</td><td class="mono">${visible(said(row.fields))}</td><td class="num ${row.status < 300 ? "good" : "bad"}">${row.status}</td></tr>`)}</tbody></table></div>` : html`<${Empty}>${t(data.changes.length ? "changes.noMatch" : "changes.none")}<//>`}`}`;
}
