// Who may come in and do what: ACLs as sentences, and users of SCRAM.
import { html, t, post, useDocument, useState, count, visible, Loading, Empty, Problem, Command, ActionDialog, ConfirmDialog } from "./kit.mjs";

const FIRST = { resourceType: "TOPIC", resourceName: "", patternType: "LITERAL", principal: "User:", host: "*", operation: "READ", permission: "ALLOW" };
const same = (row) => Object.fromEntries(Object.keys(FIRST).map((name) => [name, row[name]]));

function AddAcl({ data, onClose, onDone }) {
  const [acl, setAcl] = useState(FIRST);
  const put = (name) => (event) => setAcl({ ...acl, [name]: event.target.value });
  const select = (name, values) => html`<label class="field">${t(`acls.${name}`)}<select value=${acl[name]} onChange=${put(name)}>${values.map((one) => html`<option value=${one}>${one}</option>`)}</select></label>`;
  const text = (name) => html`<label class="field">${t(`acls.${name}`)}<input autocomplete="off" value=${acl[name]} onInput=${put(name)} /></label>`;
  const isCluster = acl.resourceType === "CLUSTER";
  return html`<${ActionDialog} title=${t("acls.add")} label=${t("acls.add")} ready=${acl.principal.includes(":") && (isCluster || acl.resourceName)} action=${() => post("api/acls", acl)} onClose=${onClose} onDone=${onDone}>
    ${text("principal")}${select("permission", ["ALLOW", "DENY"])}${select("operation", data.operations)}${select("resourceType", data.resourceTypes)}
    ${!isCluster && text("resourceName")}${!isCluster && select("patternType", ["LITERAL", "PREFIXED"])}${text("host")}<//>`;
}

function Acls({ session }) {
  const { data, error, reload } = useDocument("api/acls");
  const [dialog, setDialog] = useState(null);
  const close = () => setDialog(null);
  const done = () => { close(); reload(); };
  const columns = ["principal", "permission", "operation", "resourceType", "resourceName", "patternType", "host"];
  return html`<h2>${t("acls.title")}</h2><${Problem} error=${error} />${!data && !error && html`<${Loading} />`}${data && !data.isEnabled && html`<${Empty}>${t("acls.disabled")}<//>`}
    ${data?.isEnabled && html`<div class="row">${!session.readOnly && html`<button class="main" data-new onClick=${() => setDialog({ add: true })}>${t("acls.add")}</button>`}</div>
      ${data.acls.length ? html`<div class="wide"><table><caption class="visually-hidden">${t("acls.title")}</caption><thead><tr>${columns.map((name) => html`<th scope="col" key=${name}>${t(`acls.${name}`)}</th>`)}<th><span class="visually-hidden">${t("acls.remove")}</span></th></tr></thead>
        <tbody>${data.acls.map((row) => html`<tr key=${JSON.stringify(row)}>${columns.map((name) => html`<td key=${name} class=${name === "principal" || name === "resourceName" ? "mono" : undefined}>${visible(row[name])}</td>`)}
          <td>${!session.readOnly && html`<button class="danger" aria-label=${`${t("acls.remove")} ${visible(row.principal)} ${row.operation} ${visible(row.resourceName)}`} onClick=${() => setDialog({ remove: row })}>${t("acls.remove")}</button>`}</td></tr>`)}</tbody></table></div>` : html`<${Empty}>${t("acls.none")}<//>`}`}
    <${Command} line=${data?.command} />
    ${dialog?.add && html`<${AddAcl} data=${data} onClose=${close} onDone=${done} />`}
    ${dialog?.remove && html`<${ActionDialog} title=${t("acls.remove")} label=${t("acls.remove")} danger action=${() => post("api/acls/delete", same(dialog.remove))} onClose=${close} onDone=${done}>
      <p class="mono">${columns.map((name) => visible(dialog.remove[name])).join(" ")}</p><//>`}`;
}

function Password({ data, user, onClose, onDone }) {
  const [name, setName] = useState(user?.user ?? "");
  const [password, setPassword] = useState("");
  const [mechanism, setMechanism] = useState(user?.mechanism ?? data.mechanisms.at(-1));
  const title = t(user ? "users.password" : "users.add");
  return html`<${ActionDialog} title=${title} label=${title} ready=${name && password} action=${() => post("api/users", { user: name, password, mechanism })} onClose=${onClose} onDone=${onDone}>
    <label class="field">${t("users.user")}<input autocomplete="off" readonly=${Boolean(user)} value=${name} onInput=${(e) => setName(e.target.value)} /></label>
    <label class="field">${t("users.mechanism")}<select disabled=${Boolean(user)} value=${mechanism} onChange=${(e) => setMechanism(e.target.value)}>${data.mechanisms.map((one) => html`<option value=${one}>${one}</option>`)}</select></label>
    <label class="field">${t("users.newPassword")}<input type="password" autocomplete="new-password" value=${password} onInput=${(e) => setPassword(e.target.value)} /></label><//>`;
}

function DeleteUser({ row, onClose, onDone }) {
  const { user, mechanism } = row;
  const action = (confirm) => post("api/users/delete", { user, mechanism, confirm });
  return html`<${ConfirmDialog} title=${t("users.delete")} name=${user} lost=${t("users.delete.lost", { user: visible(user), mechanism })} action=${action} onClose=${onClose} onDone=${onDone} />`;
}

function Users({ session }) {
  const { data, error, reload } = useDocument("api/users");
  const [dialog, setDialog] = useState(null);
  const close = () => setDialog(null);
  const done = () => { close(); reload(); };
  return html`<h2>${t("users.title")}</h2><${Problem} error=${error} />${!data && !error && html`<${Loading} />`}
    ${data && html`<div class="row">${!session.readOnly && html`<button onClick=${() => setDialog({ set: true })}>${t("users.add")}</button>`}</div>
      ${data.users.length ? html`<div class="wide"><table><caption class="visually-hidden">${t("users.title")}</caption><thead><tr><th scope="col">${t("users.user")}</th><th scope="col">${t("users.mechanism")}</th><th scope="col" class="num">${t("users.iterations")}</th><th><span class="visually-hidden">${t("action.change")}</span></th></tr></thead>
        <tbody>${data.users.map((row) => html`<tr key=${row.user + row.mechanism}><td class="mono">${visible(row.user)}</td><td>${row.mechanism}</td><td class="num">${count(row.iterations)}</td>
          <td>${!session.readOnly && html`<button aria-label=${`${t("users.password")} ${visible(row.user)} ${row.mechanism}`} onClick=${() => setDialog({ set: true, row })}>${t("users.password")}</button> <button class="danger" aria-label=${`${t("users.delete")} ${visible(row.user)} ${row.mechanism}`} onClick=${() => setDialog({ remove: row })}>${t("users.delete")}</button>`}</td></tr>`)}</tbody></table></div>` : html`<${Empty}>${t("users.none")}<//>`}`}
    <${Command} line=${data?.command} />
    ${dialog?.set && html`<${Password} data=${data} user=${dialog.row} onClose=${close} onDone=${done} />`}${dialog?.remove && html`<${DeleteUser} row=${dialog.remove} onClose=${close} onDone=${done} />`}`;
}

export const Access = ({ session }) => html`<h1>${t("menu.access")}</h1><${Acls} session=${session} /><${Users} session=${session} />`;
