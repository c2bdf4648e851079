// Schemas of a registry: subjects, and one subject's versions with what each has changed.
import { html, t, useState, useDocument, enc, visible, Loading, Empty, Problem } from "./kit.mjs";

export function Schemas() {
  const { data, error } = useDocument("api/schemas");
  const [text, setText] = useState("");
  const rows = (data?.subjects ?? []).filter((name) => name.toLowerCase().includes(text.toLowerCase()));
  return html`<h1>${t("menu.schemas")}</h1><${Problem} error=${error} />${!data && !error && html`<${Loading} />`}
    ${data && html`<div class="row"><input data-search type="search" aria-label=${t("schemas.search")} placeholder=${t("schemas.search")} value=${text} onInput=${(e) => setText(e.target.value)} /></div>
      ${rows.length ? html`<table><thead><tr><th scope="col">${t("schemas.subject")}</th></tr></thead><tbody>${rows.map((name) => html`<tr key=${name}><td><a data-row href="#/schema/${enc(name)}">${visible(name)}</a></td></tr>`)}</tbody></table>`
    : html`<${Empty}>${t(data.subjects.length ? "schemas.noMatch" : "schemas.none")}<//>`}`}`;
}

const Changes = ({ lines }) => html`<pre class="diff" tabindex="0">${lines.map((line) => html`<span class=${line[0] === "+" ? "good" : line[0] === "-" ? "bad" : "dim"}>${visible(line)}${"\n"}</span>`)}</pre>`;

export function Schema({ name }) {
  const { data, error } = useDocument(`api/schema?subject=${enc(name)}`);
  return html`<p><a href="#/schemas">${t("menu.schemas")}</a> / <b>${visible(name)}</b></p><h1>${visible(name)}</h1><${Problem} error=${error} />${!data && !error && html`<${Loading} />`}
    ${data && html`<p class="dim">${t("schemas.compatibility")} ${visible(data.compatibility ?? "–")}</p>
      ${data.versions.map((one, i) => html`<h2 key=${one.version}>${t("schemas.version", { n: one.version })} <span class="tag">${visible(one.type)}</span> <span class="dim">${t("schemas.id", { n: one.id })}</span></h2>
        ${one.changes.length > 0 && html`<p>${t("schemas.changes")}</p><${Changes} lines=${one.changes} />`}
        <details open=${i === 0}><summary>${t("schemas.text")}</summary><pre tabindex="0">${visible(one.text)}</pre></details>`)}`}`;
}
