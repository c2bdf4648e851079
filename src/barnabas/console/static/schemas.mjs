// Schemas of a registry: subjects, one subject's versions with what each has changed; registered after a check, deleted.
import { html, t, useState, useDocument, post, enc, visible, Loading, Empty, Problem, ActionDialog, ConfirmDialog } from "./kit.mjs";

const TYPES = ["AVRO", "JSON", "PROTOBUF"];
const COMPATIBILITIES = ["BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE", "NONE"];

// The registry checks a schema before it takes it.
function Register({ subject, from, onClose, onDone }) {
  const [form, setForm] = useState({ subject: subject ?? "", type: from?.type ?? "AVRO", schema: from?.text ?? "" });
  const [checked, setChecked] = useState(null);
  const put = (name) => (event) => { setChecked(null); setForm({ ...form, [name]: event.target.value }); };
  const action = () => post(checked?.isCompatible ? "api/schema/register" : "api/schema/check", form);
  const done = (answer) => ("isCompatible" in answer ? setChecked(answer) : onDone(answer));
  return html`<${ActionDialog} key=${checked?.isCompatible ? "register" : "check"} title=${t("schemas.register")} label=${checked?.isCompatible ? t("schemas.register") : t("schemas.check")} ready=${form.subject !== "" && form.schema !== ""} action=${action} onClose=${onClose} onDone=${done}>
    <label class="field">${t("schemas.subject")}<input autocomplete="off" disabled=${subject !== undefined} value=${form.subject} onInput=${put("subject")} /></label>
    <label class="field">${t("schemas.type")}<select value=${form.type} onChange=${put("type")}>${TYPES.map((one) => html`<option value=${one}>${one}</option>`)}</select></label>
    <label class="field">${t("schemas.text")}<textarea class="mono" rows="12" spellcheck="false" value=${form.schema} onInput=${put("schema")}></textarea></label>
    ${checked && html`<p class=${checked.isCompatible ? "good" : "bad"} role="status">${checked.isCompatible ? t("schemas.fits") : checked.problems.map(visible).join("; ")}</p>`}<//>`;
}

function SetCompatibility({ data, onClose, onDone }) {
  const [level, setLevel] = useState(data.compatibility ?? "BACKWARD");
  return html`<${ActionDialog} title=${t("schemas.setCompatibility")} label=${t("action.change")} action=${() => post("api/schema/compatibility", { subject: data.subject, compatibility: level })} onClose=${onClose} onDone=${onDone}>
    <label class="field">${t("schemas.compatibility")}<select value=${level} onChange=${(e) => setLevel(e.target.value)}>${COMPATIBILITIES.map((one) => html`<option value=${one}>${one}</option>`)}</select></label><//>`;
}

function DeleteSchema({ data, version, onClose, onDone }) {
  const action = (confirm) => post("api/schema/delete", { subject: data.subject, confirm, ...(version === null ? {} : { version }) });
  const lost = version === null ? t("schemas.delete.lost", { subject: visible(data.subject), n: data.versions.length }) : t("schemas.deleteVersion.lost", { n: version });
  return html`<${ConfirmDialog} title=${version === null ? t("schemas.delete") : t("schemas.deleteVersion", { n: version })} name=${data.subject} lost=${lost} action=${action} onClose=${onClose} onDone=${onDone} />`;
}

export function Schemas({ session }) {
  const { data, error } = useDocument("api/schemas");
  const [text, setText] = useState("");
  const [isOpen, setOpen] = useState(false);
  const rows = (data?.subjects ?? []).filter((name) => name.toLowerCase().includes(text.toLowerCase()));
  return html`<h1>${t("menu.schemas")}</h1><${Problem} error=${error} />${!data && !error && html`<${Loading} />`}
    ${data && html`<div class="row"><input data-search type="search" aria-label=${t("schemas.search")} placeholder=${t("schemas.search")} value=${text} onInput=${(e) => setText(e.target.value)} />${!session.readOnly && html`<button data-new onClick=${() => setOpen(true)}>${t("schemas.register")}</button>`}</div>
      ${isOpen && html`<${Register} onClose=${() => setOpen(false)} onDone=${(answer) => { location.hash = `#/schema/${enc(answer.subject)}`; }} />`}
      ${rows.length ? html`<table><thead><tr><th scope="col">${t("schemas.subject")}</th></tr></thead><tbody>${rows.map((name) => html`<tr key=${name}><td><a data-row href="#/schema/${enc(name)}">${visible(name)}</a></td></tr>`)}</tbody></table>`
    : html`<${Empty}>${t(data.subjects.length ? "schemas.noMatch" : "schemas.none")}<//>`}`}`;
}

const Changes = ({ lines }) => html`<pre class="diff" tabindex="0">${lines.map((line) => html`<span class=${line[0] === "+" ? "good" : line[0] === "-" ? "bad" : "dim"}>${visible(line)}${"\n"}</span>`)}</pre>`;

export function Schema({ name, session }) {
  const { data, error, reload } = useDocument(`api/schema?subject=${enc(name)}`);
  const [dialog, setDialog] = useState(null);
  const close = () => setDialog(null);
  const done = () => { close(); reload(); };
  return html`<p><a href="#/schemas">${t("menu.schemas")}</a> / <b>${visible(name)}</b></p><h1>${visible(name)}</h1><${Problem} error=${error} />${!data && !error && html`<${Loading} />`}
    ${data && html`<p class="dim">${t("schemas.compatibility")} ${visible(data.compatibility ?? "–")}</p>
      ${!session.readOnly && html`<div class="row"><button data-new onClick=${() => setDialog("register")}>${t("schemas.register")}</button><button onClick=${() => setDialog("compatibility")}>${t("schemas.setCompatibility")}</button><button class="danger" onClick=${() => setDialog("delete")}>${t("schemas.delete")}</button></div>`}
      ${dialog === "register" && html`<${Register} subject=${data.subject} from=${data.versions[0]} onClose=${close} onDone=${done} />`}${dialog === "compatibility" && html`<${SetCompatibility} data=${data} onClose=${close} onDone=${done} />`}
      ${dialog === "delete" && html`<${DeleteSchema} data=${data} version=${null} onClose=${close} onDone=${() => { location.hash = "#/schemas"; }} />`}${typeof dialog === "number" && html`<${DeleteSchema} data=${data} version=${dialog} onClose=${close} onDone=${done} />`}
      ${data.versions.map((one, i) => html`<h2 key=${one.version}>${t("schemas.version", { n: one.version })} <span class="tag">${visible(one.type)}</span> <span class="dim">${t("schemas.id", { n: one.id })}</span></h2>${!session.readOnly && data.versions.length > 1 && html`<button class="danger" onClick=${() => setDialog(one.version)}>${t("schemas.deleteVersion", { n: one.version })}</button>`}
        ${one.changes.length > 0 && html`<p>${t("schemas.changes")}</p><${Changes} lines=${one.changes} />`}
        <details open=${i === 0}><summary>${t("schemas.text")}</summary><pre tabindex="0">${visible(one.text)}</pre></details>`)}`}`;
}
