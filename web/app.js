"use strict";
// Draws /api/v1/dashboard, every two seconds while somebody looks. Text goes in as text nodes only.

const refreshMs = 2000;
const pageSize = 500;
const byId = (id) => document.getElementById(id);
let filter = "";
let last = "";
let failures = 0;
let timer = 0;

// el("td", "num", "text" or nodes...)
function el(tag, className, ...children) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  for (const child of children) {
    if (child !== null && child !== undefined && child !== "") node.append(child);
  }
  return node;
}

function duration(fromText, now) {
  if (!fromText) return "";
  const seconds = Math.max(0, Math.round((now - Date.parse(fromText)) / 1000));
  if (seconds < 60) return seconds + " s";
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return minutes + " min";
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return hours + " h " + (minutes % 60) + " min";
  return Math.floor(hours / 24) + " d";
}

function percent(part, whole) {
  return whole > 0 ? Math.min(100, Math.max(0, (100 * part) / whole)) : 0;
}

function plural(count, word) {
  return count.toLocaleString("en") + " " + word + (count === 1 ? "" : "s");
}

function tile(label, value, rest) {
  const shown = el("div", "value", value);
  if (rest) shown.append(" ", el("small", "", rest));
  return el("li", "", el("div", "label", label), shown);
}

function drawTiles(data) {
  let total = 0, used = 0;
  for (const node of data.nodes) { total += node.total; used += node.used; }
  const down = data.nodes.filter((node) => !node.ready || !node.schedulable).length;
  const parked = data.pending.filter((row) => row.parked).length;
  byId("tiles").replaceChildren(
    tile("Accelerators in use", String(used), total ? "of " + total + ", " + Math.round(percent(used, total)) + " %" : ""),
    tile("Running", String(data.runningTotal), "gangs"),
    tile("Waiting", String(data.pendingTotal), parked ? parked + " for a change" : ""),
    tile("Nodes", String(data.nodes.length), down ? down + " unavailable" : data.nodes.length ? "all available" : ""));
}

function quotaBar(row) {
  // The bar ends at nominal, or at what is held where that is more.
  const end = Math.max(row.nominal, row.reserved, 1);
  const own = Math.max(0, row.reserved - row.borrowed);
  const track = el("div", "track");
  const ownPart = el("div", "own");
  ownPart.style.width = percent(own, end) + "%";
  track.append(ownPart);
  if (row.borrowed > 0) {
    const lent = el("div", "lent");
    lent.style.left = percent(own, end) + "%";
    lent.style.width = percent(row.borrowed, end) + "%";
    track.append(lent);
  }
  if (row.reserved > row.nominal && row.nominal > 0) {
    const mark = el("div", "mark");
    mark.style.left = "calc(" + percent(row.nominal, end) + "% - 1px)";
    track.append(mark);
  }
  const amount = row.reservedText + " of " + row.nominalText + (row.borrowed > 0 ? ", " + row.borrowedText + " borrowed" : "");
  track.setAttribute("role", "img");
  track.setAttribute("aria-label", row.resource + " in flavor " + row.flavor + ": " + amount);
  return el("div", "quota",
    el("div", "text", el("span", "", row.resource + " ", el("span", "dim", row.flavor)), el("span", "amount", amount)), track);
}

function drawQueues(queues) {
  if (queues.length === 0) {
    byId("queues").replaceChildren(el("p", "dim", "There is no ClusterQueue yet."));
    return;
  }
  byId("queues").replaceChildren(...queues.map((queue) => {
    const head = el("h3", "", queue.name, queue.cohort ? el("span", "dim", "in " + queue.cohort) : null,
      queue.strictFIFO ? el("span", "chip parked", "strict order") : null);
    const facts = el("p", "facts", el("b", "", String(queue.pending)), " waiting, ", el("b", "", String(queue.admitted)), " admitted");
    const card = el("article", "card", head, facts);
    if (!queue.active) card.append(el("p", "problem", queue.message || "This queue is not active."));
    for (const row of queue.quota) card.append(quotaBar(row));
    return card;
  }));
}

function workloadCell(row) {
  return el("td", "", el("div", "name", row.job || row.name), el("div", "sub", row.namespace + (row.job ? " / " + row.name : "")));
}

function queueCell(row) {
  return el("td", "", row.clusterQueue, row.localQueue ? el("div", "sub", row.localQueue) : null);
}

function emptyRow(columns, text) {
  const cell = el("td", "", text);
  cell.colSpan = columns;
  return el("tr", "empty", cell);
}

function drawPending(data, now) {
  const rows = data.pending.map((row) => el("tr", "",
    el("td", "num", String(row.position + 1)), workloadCell(row), queueCell(row), el("td", "num", String(row.priority)),
    el("td", "", row.requests, el("div", "sub", plural(row.pods, "pod"))),
    el("td", "num", duration(row.since, now)),
    el("td", "why", row.reason ? el("span", "chip" + (row.parked ? " parked" : ""), row.reason) : null,
      el("div", "", row.message), row.wouldFit ? el("div", "hint", row.wouldFit) : null)));
  if (rows.length === 0) rows.push(emptyRow(7, "Nobody waits."));
  const more = data.pendingTotal - data.pending.length;
  if (more > 0) rows.push(emptyRow(7, "and " + more.toLocaleString("en") + " more"));
  byId("pending").replaceChildren(...rows);
  byId("waiting-count").textContent = data.pendingTotal ? String(data.pendingTotal) : "";
}

function drawRunning(data, now) {
  const rows = data.running.map((row) => {
    const nodes = el("div", "nodelist");
    for (const share of row.nodes) {
      const chip = el("span", "chip", share.node + (share.pods > 1 ? " ×" + share.pods : ""));
      if (share.devices.length > 0) chip.title = share.devices.join(", ");
      nodes.append(chip);
    }
    if (row.nodes.length === 0) nodes.append(el("span", "sub", "chosen by kube-scheduler"));
    const bound = row.podsBound < row.pods ? row.podsBound + " / " + row.pods : String(row.pods);
    return el("tr", "", workloadCell(row), queueCell(row), el("td", "num", String(row.priority)), el("td", "", row.requests),
      el("td", "num", bound), el("td", "num", duration(row.since, now)), el("td", "", nodes));
  });
  if (rows.length === 0) rows.push(emptyRow(7, "Nothing runs."));
  const more = data.runningTotal - data.running.length;
  if (more > 0) rows.push(emptyRow(7, "and " + more.toLocaleString("en") + " more"));
  byId("running").replaceChildren(...rows);
  byId("running-count").textContent = data.runningTotal ? String(data.runningTotal) : "";
}

function nodeRow(node) {
  const most = 16;
  let usage;
  if (node.total <= most) {
    usage = el("div", "cells");
    for (let i = 0; i < node.total; ++i) usage.append(el("i", i < node.used ? "used" : ""));
  } else {
    const own = el("div", "own");
    own.style.width = percent(node.used, node.total) + "%";
    usage = el("div", "track", own);
  }
  const amount = node.total > 0 ? node.used + " / " + node.total : plural(node.pods, "pod");
  usage.setAttribute("role", "img");
  usage.setAttribute("aria-label", node.total > 0 ? node.used + " of " + node.total + " " + node.accelerator + " in use" : plural(node.pods, "pod"));
  const off = !node.ready || !node.schedulable;
  const label = el("span", "label", node.name);
  if (off) label.append(el("span", "hidden", node.ready ? ", cordoned" : ", not ready"));
  label.title = label.textContent;
  return el("div", "node" + (off ? " off" : ""), label, usage, el("span", "amount", amount));
}

function drawNodes(nodes) {
  const groups = new Map();
  for (const node of nodes) {
    if (!groups.has(node.group)) groups.set(node.group, []);
    groups.get(node.group).push(node);
  }
  const most = 64;
  byId("nodes").replaceChildren(...Array.from(groups, ([name, members]) => {
    let total = 0, used = 0;
    for (const node of members) { total += node.total; used += node.used; }
    const box = el("div", "group", el("h3", "", el("span", "", name || "nodes"), el("span", "", total ? used + " / " + total : "")));
    for (const node of members.slice(0, most)) box.append(nodeRow(node));
    if (members.length > most) box.append(el("p", "sub", "and " + plural(members.length - most, "more node")));
    return box;
  }));
  byId("node-count").textContent = nodes.length ? String(nodes.length) : "";
}

function drawEvents(events) {
  byId("events-section").hidden = events.length === 0;
  const bad = new Set(["Evicted", "Preempted", "Failed"]);
  byId("events").replaceChildren(...events.slice(0, 60).map((event) => {
    const time = el("time", "", new Date(event.at).toLocaleTimeString([], { hour12: false }));
    time.dateTime = event.at;
    return el("li", "", time, el("span", "", el("span", "chip" + (bad.has(event.kind) ? " warn" : ""), event.kind)), el("span", "name", event.workload), el("span", "", event.message));
  }));
}

function drawFilter(queues) {
  const select = byId("queue-filter");
  const names = queues.map((queue) => queue.name);
  const shown = Array.from(select.options).slice(1).map((option) => option.value);
  if (names.join("\n") === shown.join("\n")) return;
  const options = ["", ...names].map((name) => {
    const option = el("option", "", name || "all");
    option.value = name;
    return option;
  });
  select.replaceChildren(...options);
  select.value = names.includes(filter) ? filter : "";
  filter = select.value;
}

function draw(data) {
  const now = Date.parse(data.now);
  byId("title").textContent = data.title;
  byId("version").textContent = data.version;
  drawTiles(data);
  drawQueues(data.queues);
  drawFilter(data.queues);
  drawPending(data, now);
  drawRunning(data, now);
  drawNodes(data.nodes);
  drawEvents(data.events);
}

function setStatus(text, className) {
  const status = byId("status");
  if (status.textContent !== text) status.textContent = text;
  status.className = "state " + className;
}

async function refresh() {
  clearTimeout(timer);
  try {
    const query = new URLSearchParams({ limit: String(pageSize) });
    if (filter) query.set("queue", filter);
    const response = await fetch("/api/v1/dashboard?" + query, { signal: AbortSignal.timeout(10000), cache: "no-store" });
    if (!response.ok) throw new Error("HTTP " + response.status);
    const text = await response.text();
    if (text !== last) {
      draw(JSON.parse(text));
      last = text;
    }
    failures = 0;
    setStatus("live", "ok");
  } catch (error) {
    failures += 1;
    setStatus("no connection, what you see may be old", "lost");
  }
  if (!document.hidden) timer = setTimeout(refresh, refreshMs * Math.min(8, 1 + failures));
}

byId("queue-filter").addEventListener("change", (event) => { filter = event.target.value; refresh(); });
document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
refresh();
