// The places of an event and of a grip: both are in a session, and lead there.

import { Refused, get } from "../api.js";
import { event, place } from "../places.js";

export async function render({ name, parts: [id = ""], signal }) {
  if (name === "event") {
    const found = await get(`/events/${encodeURIComponent(id)}`, {}, signal);
    return go(event(found.session_id, found.event_id), signal);
  }
  const found = await get(`/grips/${encodeURIComponent(id)}/`, { events_before: 0, events_after: 0 }, signal);
  const first = found.excerpt_events[0];
  if (first === undefined) throw new Refused(404, "The words of this grip were forgotten.");
  return go(place(["session", first.session_id], { grip: id }), signal);
}

function go(url, signal) {
  if (!signal.aborted) location.replace(url);
  return null;
}
