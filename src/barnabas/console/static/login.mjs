// Logging in to the cluster: the password goes to the console, from there to the cluster, and is kept in no page.
import { html, t, post, useState, useRef, useEffect, visible, Problem } from "./kit.mjs";

export function Login({ mechanisms, onDone }) {
  const [mechanism, setMechanism] = useState(mechanisms[0]);
  const [user, setUser] = useState("");
  const [error, setError] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const first = useRef(null);
  const secret = useRef(null);
  const isToken = mechanism === "OAUTHBEARER";
  useEffect(() => first.current?.focus(), []);
  const submit = async (event) => {
    event.preventDefault();
    const password = secret.current.value;
    secret.current.value = "";
    setBusy(true); setError(null);
    try {
      await post("api/login", { mechanism, user: isToken ? "" : user, password });
      onDone();
    } catch (problem) { setError(problem); setBusy(false); secret.current.focus(); }
  };
  return html`<form class="login" onSubmit=${submit}><h1>${t("login.title")}</h1><p class="dim">${t("login.what")}</p>
    ${mechanisms.length > 1 && html`<label class="field">${t("login.mechanism")}<select value=${mechanism} onChange=${(e) => setMechanism(e.target.value)}>${mechanisms.map((one) => html`<option value=${one}>${visible(one)}</option>`)}</select></label>`}
    ${!isToken && html`<label class="field">${t("login.user")}<input ref=${first} required name="user" autocomplete="username" autocapitalize="none" spellcheck="false" maxlength="256" value=${user} onInput=${(e) => setUser(e.target.value)} /></label>`}
    <label class="field">${t(isToken ? "login.token" : "login.password")}<input ref=${secret} required type="password" name="password" autocomplete="current-password" maxlength="16384" /></label>
    <${Problem} error=${error && { error: t(`login.error.${["WrongLogin", "TooManyAttempts", "TooManyLogins", "TooManySessions"].includes(error.error) ? error.error : "other"}`), message: error.error === "WrongLogin" ? "" : error.message }} />
    <div class="row"><button type="submit" class="main" disabled=${isBusy}>${t(isBusy ? "state.working" : "login.do")}</button></div></form>`;
}
