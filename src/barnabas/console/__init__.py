"""The console: a web page that shows any Kafka cluster and changes it, served by a process of its own.

Rule 1. **A client like any other**: all that it shows comes through `barnabas.aio` and `Consumer`, so Apache Kafka
clusters look the same, and what the principal of its client settings may not do, the console may not do either. It
imports nothing of the broker. With `--login` each session has clients of its own, made with a person's password
(`Logins`, `SessionClients`), and shares with others nothing that a broker has told: a route takes its clients from
`Console._of`, and stands in the tables of `tests/contract/test_console_login.py`.

Rule 2. **Nothing passes but through `Guard`**: Host against a list (DNS rebinding), the session's cookie, the origin
and form of requests that change something (CSRF), and read-only mode, which is decided there alone. No GET changes
anything. With logins a stranger gets the page's files, and may log in. The same place adds the security headers to
every response.

Rule 3. **Records are hostile.** The browser gets JSON, and makes text nodes of it: no markup from data, no `eval`, no
script but the files in `static/`. Tests hold the policy, and run a corpus of attacks in a real browser.

Rule 4. **No secret leaves**: sensitive settings come masked from the broker, client settings given with `-X` are in no
response, the link's token is valid once. A person's password is in memory alone (`Credentials`), while the session
lasts, and each attempt is counted before it is made (`Attempts`).

Rule 5. **Everything is bounded**: streams, their queues, sizes of bodies, time of a sample. The whole cluster is looked
at only while a stream is open (`Sampler`), and never more than a tenth of the time.

Rule 6. **Each view tells the command line that does the same** (`Commands`), and is JSON under `/api`: each document
has a type. Texts are data: `static/texts/*.json`, one file a language, with the same keys.

Rule 7. **No build step**: `static/` is served as it lies there; `static/vendor` holds other people's modules with
their licences and hashes, fetched by `python -m tools.console_vendor`.

Starlette and uvicorn (the extra `console`) are imported by `server` and the files below it only, so that the rest of
barnabas needs neither. `top_app` is the same view in the terminal (Textual, the extra `top`).
"""
