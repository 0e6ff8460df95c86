// The table of nodes, and who waits for a lock.

import { $, attribute, make, pairs, patch, plural, text } from "./dom.js"
import { nameOf, nodeLink, stateOf } from "./fleet.js"
import { bytes, count, duration, rough } from "./format.js"
import { compare, differs, ownOf } from "./settings.js"

const few = 4 // settings that a row has at most
const longest = 20 // waits that are shown

/** Draws all nodes of a fleet. */
export function drawNodes(fleet, now = performance.now()) {
  const { live } = fleet
  const compared = compare(fleet.comparable)
  const players = live.reduce((sum, node) => sum + (node.load?.connections ?? 0), 0)
  text($("nodes-count"), `${plural(live.length, "node")}, ${plural(players, "connection")}`)
  patch($("nodes-rows"), fleet.all, {
    key: (node) => node.node,
    create: createRow,
    update: (row, node) => updateRow(row, node, ownOf(node, compared), now),
  })
  pairs($("common"), compared.flatMap((one) => (!differs(one) ? [[one.name, one.values[0][0]]] : one.usual === undefined ? [] : [[one.name, `${one.usual}, but not on each node`]])))
}

function createRow(node) {
  const number = (rank) => make("td", { class: `number ${rank}` })
  return make("tr", {},
    make("th", { scope: "row" }, make("a", { class: "address", href: nodeLink(node) }), make("code", {}, node.node), make("span", { class: "self" })),
    make("td", {}, make("span", { class: "mark" })), make("td", { class: "rest" }), make("td", { class: "rest" }), make("td", { class: "own" }),
    make("td", { class: "number" }, make("span"), make("span", { class: "fill", "aria-hidden": "true" })),
    number("spare"), number("spare"), number("spare"), number("rest"), number("spare"))
}

function updateRow(row, node, own, now) {
  const [name, state, up, version, settings, connections, rooms, members, queue, memory, p99] = row.children
  const { load } = node
  text(name.firstChild, nameOf(node))
  text(name.lastChild, node.self ? "this node" : "")
  const [kind, words] = stateOf(node, now)
  row.dataset.state = kind
  text(state.firstChild, words)
  text(up, node.began !== undefined && !node.gone ? duration(now - node.began) : "–")
  text(version, node.version ?? "–")
  drawOwn(settings, own, node.gone)
  text(connections.firstChild, load ? `${count(load.connections)} of ${count(load.max_connections)}` : "–")
  connections.lastChild.style.setProperty("--fill", load ? `${Math.min(100, (100 * load.connections) / Math.max(1, load.max_connections))}%` : "0%")
  text(rooms, load ? count(load.rooms) : "–")
  text(members, load ? count(load.members) : "–")
  text(queue, load ? count(load.queue) : "–")
  text(memory, load ? bytes(load.memory_bytes) : "–")
  text(p99, node.p99?.action_ms ? `${rough(node.p99.action_ms)} ms` : "–")
}

function drawOwn(cell, own, gone) {
  attribute(cell, "data-same", own.length ? undefined : "true")
  const shown = own.length ? own.slice(0, few).map(([name, value]) => [name, `${name} ${value}`, "differs"]) : [["none", gone ? "–" : "none", "muted"]] // who is gone is not compared
  if (own.length > few) shown.push(["more", `and ${own.length - few} more`, "muted"])
  patch(cell, shown, {
    key: ([name]) => name,
    create: ([, , kind]) => make("span", { class: kind }),
    update: (mark, [, words]) => text(mark, words),
  })
}

/** Draws the rooms whose actions wait, of all nodes. */
export function drawWaits(nodes) {
  const waits = nodes.flatMap((node) => (node.waiting ?? []).map((wait) => ({ ...wait, node }))).sort((a, b) => b.ms - a.ms)
  const most = waits.length > longest ? `, the ${longest} longest are shown` : ""
  text($("waits-count"), waits.length ? `${plural(waits.reduce((sum, wait) => sum + wait.actions, 0), "action")} in ${plural(new Set(waits.map(({ room }) => room)).size, "room")}${most}` : "Nobody waits.")
  $("waits").hidden = waits.length === 0
  patch($("waits-rows"), waits.slice(0, longest), {
    key: (wait) => `${wait.node.node} ${wait.room}`,
    create: ({ room, node }) => make("tr", {}, make("th", { scope: "row" }, make("a", { href: `#room=${encodeURIComponent(room)}` }, room)),
      make("td", {}, nameOf(node)), make("td", { class: "number" }), make("td", { class: "number" })),
    update: (row, { actions, ms }) => {
      text(row.children[2], count(actions))
      text(row.children[3], duration(ms))
      attribute(row.children[3], "class", ms >= 1000 ? "number differs" : "number")
    },
  })
}
