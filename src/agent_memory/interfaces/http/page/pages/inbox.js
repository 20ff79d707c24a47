// The inbox: memories that were noted automatically. Only a person in a shell decides on them.

import { get } from "../api.js";
import { h } from "../dom.js";
import { count, when } from "../format.js";
import { badge, command, dotted, empty, heading, prose } from "../parts.js";
import { event, ofUri } from "../places.js";

export async function render({ signal, announce }) {
  const inbox = await get("/inbox/", {}, signal);
  announce(`${count(inbox.total, "memory", "memories")} to review`);
  return {
    content: [
      heading("Inbox"),
      inbox.total === 0
        ? empty("Nothing awaits review.")
        : h("p", null, `${count(inbox.total, "memory awaits", "memories await")} review. To accept or reject, run `, command("memory review"), "."),
      h("ol", { class: "hits" }, inbox.memories.map(entry)),
    ],
  };
}

function entry(memory) {
  return h(
    "li",
    { class: "hit" },
    h(
      "p",
      { class: "meta" },
      badge("Memory", "of-memory"),
      " ",
      dotted(memory.namespace, when(memory.timestamp_ms), h("bdi", null, memory.domain)),
    ),
    h("a", { href: ofUri(memory.uri), "data-entry": "", class: "passage", dir: "auto" }, memory.summary),
    memory.content && memory.content !== memory.summary && prose(memory.content),
    memory.source &&
      h(
        "p",
        { class: "muted" },
        `From ${memory.source.role === "user" ? "your words" : `the words of the ${memory.source.role}`}: `,
        h("a", { href: event(memory.source.session_id, memory.source.event_id), dir: "auto" }, memory.source.text.slice(0, 300)),
      ),
  );
}
