// Groups: the list with lag, one group with members, assignment and lag over time, offsets moved with a preview.
import { html, t, useState, useDocument, useEvents, post, enc, age, count, time, visible, Loading, Empty, Problem, Command, Chart, ActionDialog, ConfirmDialog } from "./kit.mjs";

export function Groups() {
  const { data, error } = useDocument("api/groups");
  const { lags } = useEvents("lags");
  const [text, setText] = useState("");
  const rows = (data?.groups ?? []).filter((row) => row.group.toLowerCase().includes(text.toLowerCase())).sort((a, b) => (lags?.[b.group]?.lag ?? 0) - (lags?.[a.group]?.lag ?? 0));
  return html`<h1>${t("groups.title")}</h1><${Problem} error=${error} />${!data && !error && html`<${Loading} />`}
    ${data && html`<div class="row"><input data-search type="search" aria-label=${t("groups.search")} placeholder=${t("groups.search")} value=${text} onInput=${(e) => setText(e.target.value)} /></div>
      ${data.missing.length > 0 && html`<p class="warn">${t("groups.missing", { brokers: data.missing.join(", ") })}</p>`}
      ${rows.length ? html`<div class="wide"><table><thead><tr><th scope="col">${t("groups.group")}</th><th scope="col">${t("groups.state")}</th><th scope="col">${t("groups.type")}</th><th scope="col" class="num">${t("groups.lag")}</th><th scope="col" class="num">${t("groups.delay")}</th></tr></thead>
        <tbody>${rows.map((row) => html`<tr key=${row.group}><td><a data-row href="#/group/${enc(row.group)}">${visible(row.group)}</a></td><td>${row.state ?? "–"}</td><td>${row.type ?? "–"} ${visible(row.protocol)}</td><td class="num">${count(lags?.[row.group]?.lag)}</td><td class="num">${age(lags?.[row.group]?.delay)}</td></tr>`)}</tbody></table></div>`
    : html`<${Empty}>${data.groups.length ? t("groups.noMatch") : t("groups.none")}<//>`}<${Command} line=${data.command} />`}`;
}

const KINDS_OF_MOVE = { to: "groups.way.to", shiftBy: "groups.way.shiftBy", plan: "groups.way.plan" };

// Where to: a place, so many records on from the committed offset, or what a file says.
function Target({ way, value, onChange }) {
  const put = (event) => onChange(event.target.value);
  const read = async (event) => { const [file] = event.target.files; if (file) onChange(await file.text()); };
  if (way === "shiftBy") return html`<label class="field">${t("groups.shiftBy")}<input type="number" step="1" value=${value} onInput=${put} /></label>`;
  if (way === "plan") return html`<label class="field">${t("groups.plan")}<textarea class="mono" rows="5" placeholder=${"topic,partition,offset"} value=${value} onInput=${put}></textarea></label><label>${t("groups.planFile")} <input type="file" accept=".csv,text/plain,text/csv" onChange=${read} /></label>`;
  return html`<label class="field">${t("groups.to")}<input list="targets" value=${value} onInput=${put} /></label><datalist id="targets">${["beginning", "end", "-1h", "-1d", "2013-06-01T12:00"].map((one) => html`<option value=${one} />`)}</datalist>`;
}

function Move({ data, onClose, onDone }) {
  const [way, setWay] = useState("to");
  const [value, setValue] = useState("beginning");
  const [preview, setPreview] = useState(null);
  const change = (kind, text) => { setWay(kind); setValue(text); setPreview(null); };
  const action = () => post("api/group/offsets", { group: data.group, [way]: way === "shiftBy" ? Number(value) : value, dryRun: preview === null });
  const done = (answer) => (answer.dryRun ? setPreview(answer) : onDone());
  return html`<${ActionDialog} key=${preview ? "move" : "preview"} title=${t("groups.move")} label=${preview ? t("groups.move") : t("groups.preview")} danger=${preview !== null} action=${action} onClose=${onClose} onDone=${done}>
    ${data.members.length > 0 && html`<p class="warn">${t("groups.hasMembers", { n: data.members.length })}</p>`}
    <fieldset class="row"><legend>${t("groups.way")}</legend>${Object.entries(KINDS_OF_MOVE).map(([kind, text]) => html`<label><input type="radio" name="way" checked=${way === kind} onChange=${() => change(kind, { to: "beginning", shiftBy: "-100", plan: "" }[kind])} />${t(text)}</label>`)}</fieldset>
    <${Target} way=${way} value=${value} onChange=${(text) => change(way, text)} />
    ${preview && html`<div class="wide"><table><caption>${t("groups.previewTitle")}</caption><thead><tr><th scope="col">${t("topics.name")}</th><th scope="col" class="num">${t("topic.partition")}</th><th scope="col" class="num">${t("groups.committed")}</th><th scope="col" class="num">${t("groups.new")}</th><th scope="col" class="num">${t("groups.lag")}</th></tr></thead>
      <tbody>${preview.moves.map((move) => html`<tr key=${move.topic + move.partition}><td>${visible(move.topic)}</td><td class="num">${move.partition}</td><td class="num">${count(move.committed)}</td><td class="num"><b>${count(move.offset)}</b>${move.wanted !== move.offset && html`<div class="warn">${t("groups.bounded", { n: count(move.wanted) })}</div>`}</td><td class="num">${count(move.lag)}</td></tr>`)}</tbody></table></div><code>${visible(preview.command)} --execute</code>`}<//>`;
}

// What a group has committed of topics is forgotten after it was shown.
function Forget({ data, onClose, onDone }) {
  const topics = [...new Set(data.offsets.filter((row) => row.committed !== null).map((row) => row.topic))];
  const [chosen, setChosen] = useState(topics.slice(0, 1));
  const [preview, setPreview] = useState(null);
  const flip = (topic) => { setPreview(null); setChosen(chosen.includes(topic) ? chosen.filter((one) => one !== topic) : [...chosen, topic]); };
  const action = () => post("api/group/offsets/forget", { group: data.group, topics: chosen, dryRun: preview === null });
  const done = (answer) => (answer.dryRun ? setPreview(answer) : onDone());
  return html`<${ActionDialog} key=${preview ? "forget" : "preview"} title=${t("groups.forget")} label=${preview ? t("groups.forget") : t("groups.preview")} danger=${preview !== null} ready=${chosen.length > 0} action=${action} onClose=${onClose} onDone=${done}>
    <p>${t("groups.forget.what")}</p><fieldset class="row"><legend>${t("menu.topics")}</legend>${topics.map((topic) => html`<label key=${topic}><input type="checkbox" checked=${chosen.includes(topic)} onChange=${() => flip(topic)} />${visible(topic)}</label>`)}</fieldset>
    ${preview && html`<p>${t("groups.forget.lost", { n: preview.offsets.length })}</p><pre tabindex="0">${preview.offsets.map((row) => `${visible(row.topic)}-${row.partition}: ${row.committed}`).join("\n")}</pre><code>${visible(preview.command)}</code>`}<//>`;
}

function RemoveMember({ data, member, onClose, onDone }) {
  const action = (confirm) => post("api/group/members/remove", { group: data.group, members: [member.member], confirm });
  return html`<${ConfirmDialog} title=${t("groups.remove")} name=${data.group} lost=${t("groups.remove.lost", { member: visible(member.instance ?? member.member) })} action=${action} onClose=${onClose} onDone=${onDone} />`;
}

function Delete({ data, onClose }) {
  const action = (confirm) => post("api/group/delete", { group: data.group, confirm });
  return html`<${ConfirmDialog} title=${t("groups.delete")} name=${data.group} lost=${t("groups.delete.lost", { group: visible(data.group) })} command=${data.commands.delete} action=${action} onClose=${onClose} onDone=${() => { location.hash = "#/groups"; }} />`;
}

// Members × partitions; only while it fits a page.
function Matrix({ data }) {
  const partitions = [...new Set(data.offsets.map((row) => `${row.topic}-${row.partition}`))];
  if (!data.members.length || partitions.length > 60) return null;
  return html`<div class="wide"><table><caption>${t("groups.assignment")}</caption><thead><tr><th scope="col">${t("groups.member")}</th>${partitions.map((one) => html`<th scope="col" key=${one}>${visible(one)}</th>`)}</tr></thead>
    <tbody>${data.members.map((member) => html`<tr key=${member.member}><th scope="row">${visible(member.client)}</th>${partitions.map((one) => html`<td key=${one}>${member.partitions.includes(one) ? html`<span aria-label=${t("groups.assigned")}>●</span>` : ""}</td>`)}</tr>`)}</tbody></table></div>`;
}

export function Group({ name, session }) {
  const { data, error, reload } = useDocument(`api/group?group=${enc(name)}`);
  const [dialog, setDialog] = useState(null);
  const close = () => setDialog(null);
  const done = () => { close(); reload(); };
  const worst = Math.max(1, ...(data?.offsets ?? []).map((row) => row.lag ?? 0));
  const removable = data && ["CLASSIC", "CONSUMER"].includes(data.type);
  return html`<p><a href="#/groups">${t("groups.title")}</a> / <b>${visible(name)}</b></p><h1>${visible(name)}</h1><${Problem} error=${error} />${!data && !error && html`<${Loading} />`}
    ${data && html`<div class="tiles"><div class="tile"><b>${data.state}</b>${t("groups.state")}</div><div class="tile"><b>${count(data.members.length)}</b>${t("groups.members")}</div><div class="tile"><b>${count(data.lag)}</b>${t("groups.lag")}</div><div class="tile"><b>${data.coordinator}</b>${t("groups.coordinator")}</div></div>
      <p class="dim">${[data.type, visible(data.protocol)].filter(Boolean).join(" · ")}</p>
      <div class="row"><button onClick=${reload}>${t("action.reload")}</button>${!session.readOnly && html`<button onClick=${() => setDialog("move")}>${t("groups.move")}</button><button class="danger" disabled=${!data.offsets.some((row) => row.committed !== null)} onClick=${() => setDialog("forget")}>${t("groups.forget")}</button><button class="danger" onClick=${() => setDialog("delete")}>${t("groups.delete")}</button>`}</div>
      ${data.history.length > 1 && html`<div class="two"><${Chart} label=${t("groups.lagOverTime")} times=${data.history.map((p) => p[0])} series=${[{ label: t("groups.lag"), values: data.history.map((p) => p[1]) }]} /><${Chart} label=${t("groups.delayOverTime")} times=${data.history.map((p) => p[0])} series=${[{ label: t("groups.delaySeconds"), values: data.history.map((p) => p[2] === null ? null : p[2] / 1000) }]} /></div>`}
      ${data.members.length ? html`<div class="wide"><table><caption>${t("groups.members")}</caption><thead><tr><th scope="col">${t("groups.member")}</th><th scope="col">${t("groups.client")}</th><th scope="col">${t("groups.host")}</th><th scope="col" class="num">${t("topic.partitions")}</th><th><span class="visually-hidden">${t("groups.remove")}</span></th></tr></thead>
        <tbody>${data.members.map((m) => html`<tr key=${m.member}><td class="mono">${visible(m.instance ?? m.member)}</td><td>${visible(m.client)}</td><td class="mono">${visible(m.host)}</td><td class="num">${m.partitions.length}</td><td>${!session.readOnly && removable && html`<button class="danger" aria-label=${`${t("groups.remove")} ${visible(m.instance ?? m.member)}`} onClick=${() => setDialog(m)}>${t("groups.remove")}</button>`}</td></tr>`)}</tbody></table></div>` : html`<${Empty}>${t("groups.noMembers")}<//>`}<${Matrix} data=${data} />
      ${data.offsets.length > 0 && html`<div class="wide"><table><caption>${t("groups.offsets")}</caption><thead><tr><th scope="col">${t("topics.name")}</th><th scope="col" class="num">${t("topic.partition")}</th><th scope="col" class="num">${t("groups.committed")}</th><th scope="col" class="num">${t("topic.end")}</th><th scope="col" class="num">${t("groups.lag")}</th><th scope="col" class="num">${t("groups.delay")}</th></tr></thead>
        <tbody>${data.offsets.map((row) => html`<tr key=${row.topic + row.partition}><td><a href="#/topic/${enc(row.topic)}">${visible(row.topic)}</a></td><td class="num">${row.partition}</td><td class="num">${count(row.committed)}</td><td class="num">${count(row.end)}</td><td class="num">${row.lag > 0 && html`<span class="share" style=${{ width: `${Math.round(80 * row.lag / worst)}px` }}></span>`}${count(row.lag)}</td><td class="num">${age(row.delay)}</td></tr>`)}</tbody></table></div>`}
      <${Command} line=${data.commands.describe} />${dialog === "move" && html`<${Move} data=${data} onClose=${close} onDone=${done} />`}${dialog === "forget" && html`<${Forget} data=${data} onClose=${close} onDone=${done} />`}${dialog?.member && html`<${RemoveMember} data=${data} member=${dialog} onClose=${close} onDone=${done} />`}${dialog === "delete" && html`<${Delete} data=${data} onClose=${close} />`}`}`;
}

function EndTransaction({ row, onClose, onDone }) {
  const action = (confirm) => post("api/transactions/end", { id: row.id, confirm });
  return html`<${ConfirmDialog} title=${t("txn.end")} name=${row.id} lost=${t("txn.end.lost", { id: visible(row.id) })} action=${action} onClose=${onClose} onDone=${onDone} />`;
}

function AbortHanging({ row, onClose, onDone }) {
  const { topic, partition, startOffset } = row;
  const action = (confirm) => post("api/transactions/abort-hanging", { topic, partition, startOffset, confirm });
  return html`<${ConfirmDialog} title=${t("txn.abortHanging")} label=${t("txn.end")} name=${`${topic}-${partition}`} lost=${t("txn.abortHanging.lost", { offset: startOffset })} action=${action} onClose=${onClose} onDone=${onDone} />`;
}

// Looked for only when asked: it takes a question for each partition of the cluster.
function Hanging({ session }) {
  const [path, setPath] = useState(null);
  const [minutes, setMinutes] = useState("15");
  const [ended, setEnded] = useState(null);
  const { data, error, reload } = useDocument(path);
  const look = (event) => { event.preventDefault(); const wanted = `api/transactions/hanging?minutes=${enc(minutes)}`; if (wanted === path) reload(); else setPath(wanted); };
  return html`<h2>${t("txn.hanging")}</h2><p class="dim">${t("txn.hanging.what")}</p><form class="row" onSubmit=${look}><label>${t("txn.hanging.minutes")} <input class="short" inputmode="numeric" value=${minutes} onInput=${(e) => setMinutes(e.target.value)} /></label><button>${t("txn.hanging.look")}</button></form>
    <${Problem} error=${error} />${path && !data && !error && html`<${Loading} />`}
    ${data && (data.hanging.length ? html`<div class="wide"><table><thead><tr><th scope="col">${t("topics.name")}</th><th scope="col" class="num">${t("topic.partition")}</th><th scope="col" class="num">${t("txn.producer")}</th><th scope="col" class="num">${t("txn.startOffset")}</th><th scope="col">${t("txn.written")}</th><th><span class="visually-hidden">${t("txn.end")}</span></th></tr></thead>
      <tbody>${data.hanging.map((row) => html`<tr key=${`${row.topic}-${row.partition}-${row.producerId}`}><td data-row tabindex="-1">${visible(row.topic)}</td><td class="num">${row.partition}</td><td class="num">${row.producerId}/${row.epoch}</td><td class="num">${count(row.startOffset)}</td><td>${time(row.written)}</td>
        <td>${!session.readOnly && html`<button class="danger" aria-label=${`${t("txn.end")} ${row.topic}-${row.partition}`} onClick=${() => setEnded(row)}>${t("txn.end")}</button>`}</td></tr>`)}</tbody></table></div>` : html`<${Empty}>${t("txn.hanging.none")}<//>`)}
    <${Command} line=${data?.command} />${ended && html`<${AbortHanging} row=${ended} onClose=${() => setEnded(null)} onDone=${() => { setEnded(null); reload(); }} />`}`;
}

export function Transactions({ session }) {
  const { data, error, reload } = useDocument("api/transactions");
  const [ended, setEnded] = useState(null);
  return html`<h1>${t("menu.transactions")}</h1><${Problem} error=${error} />${!data && !error && html`<${Loading} />`}
    ${data && html`<div class="row"><button onClick=${reload}>${t("action.reload")}</button></div>${data.missing.length > 0 && html`<p class="warn">${t("groups.missing", { brokers: data.missing.join(", ") })}</p>`}
      ${data.transactions.length ? html`<div class="wide"><table><thead><tr><th scope="col">${t("txn.id")}</th><th scope="col">${t("groups.state")}</th><th scope="col">${t("txn.open")}</th><th scope="col" class="num">${t("txn.producer")}</th><th scope="col">${t("topic.partitions")}</th><th><span class="visually-hidden">${t("txn.end")}</span></th></tr></thead>
        <tbody>${data.transactions.map((row) => html`<tr key=${row.id}><td data-row tabindex="-1">${visible(row.id)}</td><td>${row.state}</td><td>${time(row.started)}</td><td class="num">${row.producerId}${row.epoch === null ? "" : `/${row.epoch}`}</td><td class="mono">${row.partitions.map(visible).join(" ")}</td>
          <td>${!session.readOnly && row.started >= 0 && html`<button class="danger" aria-label=${`${t("txn.end")} ${row.id}`} onClick=${() => setEnded(row)}>${t("txn.end")}</button>`}</td></tr>`)}</tbody></table></div>` : html`<${Empty}>${t("txn.none")}<//>`}
      <${Command} line=${data.command} /><${Hanging} session=${session} />${ended && html`<${EndTransaction} row=${ended} onClose=${() => setEnded(null)} onDone=${() => { setEnded(null); reload(); }} />`}`}`;
}
