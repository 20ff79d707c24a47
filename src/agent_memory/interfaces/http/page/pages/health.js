// Health: the daemon, its indexes, its jobs and the disk.

import { get, post } from "../api.js";
import { fill, h } from "../dom.js";
import { bytes, count, duration, number, when } from "../format.js";
import { badge, button, command, facts, heading } from "../parts.js";

export async function render({ signal, announce }) {
  const [status, jobs] = await Promise.all([get("/status/", {}, signal), get("/jobs/", {}, signal)]);
  const { indexes } = status;
  const good = status.store.writable && status.damages.length === 0 && !indexes.trouble && status.warnings.length === 0;
  const failed = jobs.jobs.filter((job) => job.last_error);
  return {
    content: [
      heading("Health"),
      h("p", null, badge(good ? "All is well" : "Needs a look", good ? "good" : "bad")),
      status.warnings.map((warning) => h("p", { class: "warning" }, warning.message ?? String(warning))),
      status.damages.map((damage) => h("p", { class: "warning" }, typeof damage === "string" ? damage : JSON.stringify(damage))),
      indexes.trouble && h("p", { class: "warning" }, indexes.trouble),
      !status.store.writable && h("p", { class: "warning" }, status.store.reason),
      h(
        "div",
        { class: "columns" },
        h(
          "section",
          null,
          h("h2", null, "Daemon"),
          facts([
            ["Version", status.version],
            ["Running for", duration(status.uptime_seconds)],
            ["Events", number(status.events)],
            ["Address", status.http_addresses.join(", ")],
            ["Summarizer", status.summarizer],
            ["Last backup", status.backup.made_ms ? when(status.backup.made_ms) : "none"],
          ]),
        ),
        h(
          "section",
          null,
          h("h2", null, "Indexes"),
          facts([
            ["Words", `${count(indexes.words.documents, "document")}, ${waiting(indexes.words_waiting)}`],
            ["Meaning", indexes.vectors ? `${count(indexes.vectors.documents, "document")}, ${waiting(indexes.vectors_waiting)}` : "off"],
            ["Model", indexes.model || "none"],
            ["Doing", indexes.doing],
            ...Object.entries(indexes.waiting_by_kind).map(([kind, waits]) => [`Waiting: ${kind}`, number(waits)]),
          ]),
        ),
        h("section", null, h("h2", null, "Disk"), disk(status)),
        settings(status.sources),
      ),
      h("h2", null, "Jobs"),
      !jobs.scheduler_running && h("p", { class: "warning" }, "The scheduler does not run."),
      h("ul", { class: "cards wide" }, jobs.jobs.map((job) => jobCard(job, announce))),
      failed.length > 0 && [
        h("h2", null, "Recent errors"),
        h("ul", { class: "plain" }, failed.map((job) => h("li", { dir: "auto" }, `${job.job_name}: ${job.last_error}`))),
      ],
      h("h2", null, "This browser"),
      h("p", null, "It stays signed in until the daemon ends. To sign out all browsers, run ", command("memory-daemon token revoke page"), "."),
      h("p", null, button("Sign out", () => dispatchEvent(new Event("sign-out")))),
    ],
  };
}

const waiting = (value) => (value ? `${number(value)} waiting` : "none waiting");

function disk(status) {
  const { indexes } = status;
  const rows = [
    ["Store", status.db_bytes],
    ["Index of words", indexes.words.size_bytes],
    ["Index of meaning", indexes.vectors?.size_bytes ?? 0],
  ];
  const most = Math.max(1, ...rows.map(([, size]) => size));
  return h(
    "dl",
    { class: "facts" },
    rows.map(([name, size]) =>
      h(
        "div",
        null,
        h("dt", null, name),
        h("dd", null, bytes(size), " ", h("meter", { min: 0, max: most, value: size, "aria-label": `${name}, ${bytes(size)}` })),
      ),
    ),
  );
}

function settings(sources) {
  const rows = Object.entries(sources);
  if (rows.length === 0) return null;
  return h(
    "section",
    null,
    h("h2", null, "Settings that are not the default"),
    facts(rows.map(([name, source]) => [h("code", null, name), source])),
  );
}

function jobCard(job, announce) {
  const box = h("li", { class: "card" });
  const act = (path) => async (clicked) => {
    const name = clicked.target.textContent;
    for (const each of box.querySelectorAll("button")) each.disabled = true;
    try {
      show(await post(`/jobs/${encodeURIComponent(job.job_name)}/${path}/`));
      announce(`${job.job_name}: done`);
      [...box.querySelectorAll("button")].find((each) => each.textContent === name)?.focus();
    } catch (error) {
      announce(error.message);
      box.append(h("p", { role: "alert", class: "warning" }, error.message));
      for (const each of box.querySelectorAll("button")) each.disabled = false;
    }
  };
  const show = (now) => {
    const state = now.is_paused ? "paused" : now.is_running ? "running" : now.last_error ? "failed" : "";
    fill(
      box,
      h("h3", null, now.job_name, state && [" ", badge(state, state === "failed" ? "bad" : "")]),
      h(
        "p",
        { class: "muted" },
        now.run_count ? ["last ", when(now.last_run_ms), `, ${number(now.last_duration_ms)} ms`] : "never ran",
        !now.is_paused && now.next_run_ms && [" · next ", when(now.next_run_ms)],
        ` · ${count(now.run_count, "run")}`,
        now.error_count > 0 && `, ${count(now.error_count, "error")}`,
      ),
      h(
        "p",
        { class: "actions" },
        button("Run", act("run"), { "aria-label": `Run ${now.job_name}`, "data-entry": "" }),
        now.is_paused
          ? button("Resume", act("resume"), { "aria-label": `Resume ${now.job_name}` })
          : button("Pause", act("pause"), { "aria-label": `Pause ${now.job_name}` }),
      ),
    );
  };
  show(job);
  return box;
}
