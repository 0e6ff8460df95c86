// The table of nodes, and who waits for a lock.

import { request } from "./api.js"
import { confirm } from "./dialog.js"
import { $, attribute, make, patch, plural, text } from "./dom.js"
import { bytes, clock, count, duration, rough } from "./format.js"

/** Draws all nodes of a fleet. `done` is called with a sentence when a node was asked to stop. */
export function drawNodes(fleet, done, now = Date.now()) {
  const { live } = fleet
  const { common, unusual } = compare(live.filter((node) => node.heard !== undefined))
  const players = live.reduce((sum, node) => sum + (node.load?.connections ?? 0), 0)
  text($("nodes-count"), `${plural(live.length, "node")}, ${plural(players, "connection")}`)
  patch($("nodes-rows"), fleet.all, {
    key: (node) => node.node,
    create: (node) => createRow(node, fleet, done),
    update: (row, node) => updateRow(row, node, unusual.get(node.node) ?? [], now),
  })
  patch($("common"), common, {
    key: ([name]) => name,
    create: ([name]) => make("div", {}, make("dt", {}, name), make("dd")),
    update: (pair, [, value]) => text(pair.lastChild, value),
  })
}

/** What most nodes have in common, and by node what is otherwise there. Where no value is most nodes', each shows its own. Versions count. */
function compare(nodes) {
  const values = new Map() // name: value: nodes
  for (const { node, version, settings } of nodes) {
    for (const [name, value] of Object.entries({ ...(version && { version }), ...settings })) {
      if (!values.has(name)) values.set(name, new Map())
      const of = values.get(name)
      of.set(value, [...(of.get(value) ?? []), node])
    }
  }
  const common = [], unusual = new Map()
  for (const [name, of] of values) {
    if (of.size === 1) common.push([name, of.keys().next().value])
    else {
      const usual = most(of)
      if (usual !== undefined) common.push([name, `${usual}, but not on each node`])
      for (const [value, nodes] of of) if (value !== usual) for (const node of nodes) unusual.set(node, [...(unusual.get(node) ?? []), [name, value]])
    }
  }
  return { common, unusual }
}

/** The value that more than half of the nodes have, undefined if none is. */
function most(of) {
  const all = [...of.values()].reduce((sum, nodes) => sum + nodes.length, 0)
  return [...of].find(([, nodes]) => nodes.length * 2 > all)?.[0]
}

function createRow(node, fleet, done) {
  const drain = make("button", { type: "button", class: "small" }, "Drain…")
  drain.setAttribute("aria-label", `Drain ${node.address || node.node}…`)
  drain.onclick = () => askToDrain(fleet.all.find((one) => one.node === node.node) ?? node, fleet, done)
  const number = () => make("td", { class: "number" })
  const row = make("tr", {},
    make("th", { scope: "row" }, make("span", { class: "address" }), make("code", {}, node.node), make("span", { class: "self" })),
    make("td", {}, make("span", { class: "mark" })), make("td"), make("td"), make("td", { class: "own" }),
    make("td", { class: "number" }, make("span"), make("span", { class: "fill", "aria-hidden": "true" })),
    number(), number(), number(), number(), number(), make("td", { class: "act" }, drain))
  const heads = document.querySelectorAll("#nodes thead th")
  for (const [i, cell] of [...row.children].entries()) cell.dataset.head = heads[i].textContent // a phone shows it beside the value
  return row
}

function updateRow(row, node, own, now) {
  const [name, state, up, version, settings, connections, rooms, members, queue, memory, p99, act] = row.children
  const { load } = node
  text(name.firstChild, node.address || (node.heard === undefined ? "a program without a server" : "a node without an address"))
  text(name.lastChild, node.self ? "this node" : "")
  const [kind, words] = stateOf(node, now)
  row.dataset.state = kind
  text(state.firstChild, words)
  text(up, node.started && !node.gone ? duration(now - node.started) : "–")
  text(version, node.version ?? "–")
  attribute(version, "class", own.some(([setting]) => setting === "version") ? "differs" : undefined)
  drawOwn(settings, own.filter(([setting]) => setting !== "version"))
  text(connections.firstChild, load ? `${count(load.connections)} of ${count(load.max_connections)}` : "–")
  connections.lastChild.style.setProperty("--fill", load ? `${Math.min(100, (100 * load.connections) / Math.max(1, load.max_connections))}%` : "0%")
  text(rooms, load ? count(load.rooms) : "–")
  text(members, load ? count(load.members) : "–")
  text(queue, load ? count(load.queue) : "–")
  text(memory, load ? bytes(load.memory_bytes) : "–")
  text(p99, node.p99?.action_ms ? `${rough(node.p99.action_ms)} ms` : "–")
  attribute(act.firstChild, "disabled", node.gone || node.draining ? "" : undefined)
}

function drawOwn(cell, own) {
  attribute(cell, "data-same", own.length ? undefined : "true")
  patch(cell, own.length ? own : [["none", "none"]], {
    key: ([name]) => name,
    create: () => make("span"),
    update: (mark, [name, value]) => {
      attribute(mark, "class", own.length ? "differs" : "muted")
      text(mark, own.length ? `${name} ${value}` : "none")
    },
  })
}

/** What to say of a node: [kind, words]. */
function stateOf(node, now) {
  if (node.gone) return [node.draining ? "stopped" : "gone", `${node.draining ? "stopped" : "gone"} since ${clock(node.draining ? node.gone : (node.heard ?? node.gone))}`]
  if (node.heard === undefined) return ["mute", "does not report"] // of an older version, or no server
  if (node.silent) return ["silent", `silent since ${clock(node.heard)}, for ${duration(now - node.heard)}`]
  return node.draining ? ["draining", "draining"] : ["up", "reports"]
}

function askToDrain(node, fleet, done) {
  const others = fleet.live.filter((one) => one.node !== node.node && !one.draining && !one.silent)
  const players = plural(node.load?.connections ?? 0, "connection")
  confirm({
    title: `Drain ${node.address || node.node}?`,
    about: [
      `Node ${node.node} stops as by SIGTERM: its ${players} are asked to come back on another node, and keep their seats. `,
      others.length ? `${plural(others.length, "node")} would be left.` : "No other node is left: nobody can play until one starts.",
      node.self ? " This page comes from this node, and will not be answered any more." : "",
    ],
    action: "Drain the node", danger: true,
    work: async () => {
      await request("POST", `/api/nodes/${encodeURIComponent(node.node)}/drain`)
      done(`${node.address || node.node} was asked to stop. It notices within 2 s.`)
    },
  })
}

/** Draws the rooms whose actions wait, of all nodes. */
export function drawWaits(nodes) {
  const waits = nodes.flatMap(({ address, node, waiting }) => (waiting ?? []).map((wait) => ({ ...wait, address, node }))).sort((a, b) => b.ms - a.ms)
  text($("waits-count"), waits.length ? `${plural(waits.reduce((sum, wait) => sum + wait.actions, 0), "action")} in ${plural(waits.length, "room")}` : "Nobody waits.")
  $("waits").hidden = waits.length === 0
  patch($("waits-rows"), waits, {
    key: (wait) => `${wait.node} ${wait.room}`,
    create: ({ room, address }) => make("tr", {}, make("th", { scope: "row" }, make("a", { href: `#room=${encodeURIComponent(room)}` }, room)),
      make("td", {}, address), make("td", { class: "number" }), make("td", { class: "number" })),
    update: (row, { actions, ms }) => {
      text(row.children[2], count(actions))
      text(row.children[3], duration(ms))
      attribute(row.children[3], "class", ms >= 1000 ? "number differs" : "number")
    },
  })
}
