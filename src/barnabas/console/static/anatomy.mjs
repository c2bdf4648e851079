// Anatomy: a recording as a film. One renderer draws all scenes: lanes of boxes, from the picture that the server reduced.
import { html, t, get, enc, useDocument, useState, useEffect, useRef, visible, Problem, Loading, Empty } from "./kit.mjs";

const SPEEDS = [0.1, 1, 10, 100];
const FRAME = 120;

const exact = (value) => (typeof value === "number" ? Number(value.toFixed(3)) : value === "" ? "–" : value);
const fact = ([name, value]) => t(`fact.${name}`, { v: visible(value) });

function AnatomyBox({ box, isNew }) {
  const facts = Object.entries(box.facts).map(fact);
  const fill = box.fill === null ? null : html`<progress max="1" value=${box.fill} aria-hidden="true"></progress>`;
  return html`<li class="part ${box.kind}${isNew ? " new" : ""}" title=${facts.join("\n")}><b>${visible(box.label)}</b>
    <span class="visually-hidden">${t(`kind.${box.kind}`)}</span>${fill}<small>${facts.slice(0, 4).join(" · ")}</small></li>`;
}

function AnatomyLane({ lane, before }) {
  const title = t(`lane.${lane.title}`, Object.fromEntries(Object.entries(lane.of).map(([name, value]) => [name, visible(value)])));
  return html`<section class="lane" aria-label=${title}><h2>${title}</h2><ol>${lane.boxes.map((box) =>
    html`<${AnatomyBox} key=${box.key} box=${box} isNew=${before !== null && !before.has(box.key)} />`)}
    ${lane.more > 0 && html`<li class="dim">${t("anatomy.more", { n: lane.more })}</li>`}
    ${lane.boxes.length === 0 && html`<li class="dim">${t("anatomy.nothing")}</li>`}</ol></section>`;
}

function Picture({ picture }) {
  const seen = useRef(null);
  const before = seen.current;
  useEffect(() => { seen.current = new Set(picture.lanes.flatMap((lane) => lane.boxes.map((box) => box.key))); }, [picture]);
  return html`<div class="picture">${picture.lanes.map((lane, i) => html`<${AnatomyLane} key=${i} lane=${lane} before=${before} />`)}
    ${picture.more > 0 && html`<p class="dim">${t("anatomy.moreLanes", { n: picture.more })}</p>`}</div>`;
}

// What comes while a recording grows; nothing is open while the tab is hidden, or it is looked back.
function useFollowing(path, isOn, onStep, onRecording, onTrouble) {
  useEffect(() => {
    if (!isOn) return undefined;
    let source = null;
    const close = () => { source?.close(); source = null; };
    const open = () => {
      source = new EventSource(path);
      source.addEventListener("step", (event) => onStep(JSON.parse(event.data)));
      source.addEventListener("recording", (event) => onRecording(JSON.parse(event.data)));
      source.addEventListener("trouble", (event) => { close(); onTrouble(JSON.parse(event.data)); });
    };
    const follow = () => { if (document.hidden) close(); else if (source === null) open(); };
    follow();
    document.addEventListener("visibilitychange", follow);
    return () => { document.removeEventListener("visibilitychange", follow); close(); };
  }, [path, isOn]);
}

// Five stops in the film, a sentence at each; n goes to the next.
function Lesson({ scene, path, step, onGo }) {
  const { data, error } = useDocument(path);
  if (!data) return html`<${Problem} error=${error} />`;
  const next = data.stops.find((stop) => stop !== null && stop > step) ?? data.stops.find((stop) => stop !== null);
  return html`<section class="box" aria-label=${t("anatomy.lesson")}><ol class="lesson">${data.stops.map((stop, i) => html`<li aria-current=${stop === step ? "step" : undefined} class=${stop === null ? "dim" : ""}>
    ${stop === null ? html`${t(`lesson.${scene}.${i + 1}`)} <i>${t("anatomy.notHere")}</i>` : html`<button onClick=${() => onGo(stop)}>${t("anatomy.stop", { n: stop + 1 })}</button> ${t(`lesson.${scene}.${i + 1}`)}`}</li>`)}</ol>
    <button data-new class="main" disabled=${next === undefined} onClick=${() => onGo(next)}>${t("anatomy.nextStop")}</button></section>`;
}

function Player({ scene, lesson, path, live, span, start, isGrowing, onRecording }) {
  const [state, setState] = useState({ shown: null, error: null });
  const [isPlaying, setPlaying] = useState(false);
  const [isLive, setLive] = useState(isGrowing);
  const [isLesson, setLesson] = useState(false);
  const [speed, setSpeed] = useState(1);
  const asked = useRef(0);
  const show = async (query) => {
    const number = ++asked.current;
    try {
      const shown = await get(`${path}${query}`);
      if (number === asked.current) setState({ shown, error: null });
      return shown;
    } catch (error) {
      if (number === asked.current) { setState((old) => ({ ...old, error })); setPlaying(false); }
      return null;
    }
  };
  useEffect(() => { setPlaying(false); show(isLive ? "" : start === null ? "&step=0" : `&at=${start}`); }, [path]);
  useFollowing(live, isLive, (shown) => { asked.current++; setState({ shown, error: null }); }, onRecording, (error) => { setLive(false); setState((old) => ({ ...old, error })); });
  useEffect(() => {
    if (!isPlaying || !state.shown) return undefined;
    let isOver = false;
    let at = state.shown.at;
    const turn = async () => {
      at += (FRAME / 1000) * speed;
      const shown = await show(`&at=${at}`);
      if (isOver || !shown) return;
      if (shown.step >= shown.steps - 1) setPlaying(false); else setTimeout(turn, FRAME);
    };
    const first = setTimeout(turn, FRAME);
    return () => { isOver = true; clearTimeout(first); };
  }, [isPlaying, speed]);
  if (!state.shown) return html`<${Problem} error=${state.error} />${!state.error && html`<${Loading} />`}`;
  const { step, steps, at, event, picture } = state.shown;
  const go = (to) => { setPlaying(false); setLive(false); show(`&step=${Math.max(0, Math.min(steps - 1, to))}`); };
  const button = (name, sign, action, disabled) => html`<button aria-label=${t(`anatomy.${name}`)} title=${t(`anatomy.${name}`)} disabled=${disabled} onClick=${action}>${sign}</button>`;
  const onKey = (pressed) => {
    if (pressed.key === "l" && pressed.target.tagName !== "SELECT") { pressed.preventDefault(); pressed.stopPropagation(); setPlaying(false); setLive(!isLive); return; }
    const move = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20 }[pressed.key];
    if (move === undefined || pressed.target.tagName === "SELECT") return;
    pressed.preventDefault();
    go(step + move);
  };
  const fields = Object.fromEntries(Object.entries(event.fields).map(([name, value]) => [name, visible(exact(value))]));
  return html`<div onKeyDown=${onKey}><div class="row" role="group" aria-label=${t("anatomy.steps")}>
      ${button("first", "«", () => go(0), step === 0)}${button("back", "‹", () => go(step - 1), step === 0)}
      ${button(isPlaying ? "pause" : "play", isPlaying ? "■" : "▶", () => { setLive(false); setPlaying(!isPlaying); }, step >= steps - 1)}
      ${button("forward", "›", () => go(step + 1), step >= steps - 1)}${button("last", "»", () => go(steps - 1), step >= steps - 1)}
      <button class="live" aria-pressed=${isLive} title=${t("anatomy.live.what")} onClick=${() => { setPlaying(false); setLive(!isLive); }}>${t("anatomy.live")}</button>
      <button aria-pressed=${isLesson} onClick=${() => setLesson(!isLesson)}>${t("anatomy.lesson")}</button>
      <select aria-label=${t("anatomy.speed")} value=${speed} onChange=${(e) => setSpeed(Number(e.target.value))}>${SPEEDS.map((one) => html`<option value=${one}>×${one}</option>`)}</select>
      <input class="scrub" type="range" min="0" max=${steps - 1} value=${step} aria-label=${t("anatomy.step")} onInput=${(e) => go(Number(e.target.value))} />
      <span class="num">${t("anatomy.place", { n: step + 1, of: steps })} · ${t("anatomy.seconds", { s: (at - span).toFixed(4) })}</span></div>
    ${isLesson && html`<${Lesson} scene=${scene} path=${lesson} step=${step} onGo=${go} />`}
    <p class="box" role="status" aria-live=${isLive ? "off" : "polite"}><b class="mono">${event.name}</b> ${t(`event.${event.name}`, fields)}</p>
    <${Problem} error=${state.error} /><${Picture} picture=${picture} /></div>`;
}

export function Anatomy({ query }) {
  const wanted = query.get("recording") ?? "";
  const { data: asked, error } = useDocument(`api/anatomy?recording=${enc(wanted)}`);
  const [grown, setGrown] = useState(null);
  const [chosen, choose] = useState({ scene: null, subject: null });
  useEffect(() => setGrown(null), [wanted]);
  const data = asked && grown ? { ...asked, ...grown } : asked;
  if (!data) return html`<h1>${t("anatomy.title")}</h1><${Problem} error=${error} />${!error && html`<${Loading} />`}`;
  const scenes = Object.keys(data.subjects).filter((scene) => data.subjects[scene].length > 0);
  if (scenes.length === 0) return html`<h1>${t("anatomy.title")}</h1><${Empty}>${t("anatomy.empty")}<//>`;
  const scene = scenes.includes(chosen.scene) ? chosen.scene : scenes[0];
  const subject = data.subjects[scene].includes(chosen.subject) ? chosen.subject : data.subjects[scene][0];
  const which = `recording=${enc(data.recording)}&subject=${enc(subject)}`;
  return html`<h1>${t("anatomy.title")}: ${visible(data.title)}</h1>
    <div class="row">${data.recordings.length > 1 && html`<select aria-label=${t("anatomy.recording")} value=${data.recording} onChange=${(e) => { location.hash = `#/anatomy?recording=${enc(e.target.value)}`; }}>${data.recordings.map((name) => html`<option value=${name}>${name === "*" ? t("anatomy.together") : visible(name)}</option>`)}</select>`}
      ${scenes.map((name) => html`<button key=${name} class="tab" aria-current=${name === scene ? "page" : undefined} onClick=${() => choose({ scene: name, subject: null })}>${t(`scene.${name}`)}</button>`)}
      <select aria-label=${t(`scene.${scene}`)} value=${subject} onChange=${(e) => choose({ scene, subject: e.target.value })}>${data.subjects[scene].map((name) => html`<option value=${name}>${visible(name)}</option>`)}</select></div>
    <p class="dim">${t(`about.${scene}`)}</p>
    ${data.lost > 0 && html`<p class="warn">${t("anatomy.lost", { n: data.lost })}</p>`}
    ${data.violation && html`<p class="box bad" role="alert">${t("anatomy.violation", { s: (data.violation.at - data.from).toFixed(4) })} <b>${visible(data.violation.what)}</b></p>`}
    <${Player} key=${data.recording} scene=${scene} lesson=${`api/anatomy/${scene}/lesson?${which}`} path=${`api/anatomy/${scene}?${which}`} live=${`api/anatomy/${scene}/live?${which}`} span=${data.from} start=${data.violation?.at ?? null} isGrowing=${data.isGrowing && !data.violation} onRecording=${setGrown} />`;
}
