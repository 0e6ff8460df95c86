// One node: its state, load and settings, and what is wrong with it.

import { request } from "./api.js"
import { confirm } from "./dialog.js"
import { $, attribute, pairs, plural, text } from "./dom.js"
import { nameOf, stateOf } from "./fleet.js"
import { bytes, clockAt, count, duration, rough } from "./format.js"
import { drawProblems } from "./problems.js"
import { compare, ownOf, settingsOf } from "./settings.js"

/** Node shows one node of a fleet while it is open. `done` is called with a sentence when the node was asked to stop. */
export class Node {
  #fleet
  #name

  constructor(fleet, done) {
    this.#fleet = fleet
    $("node-drain").onclick = () => {
      const node = this.#node
      if (node) askToDrain(node, fleet, done)
    }
  }

  get #node() {
    return this.#fleet.all.find(({ node }) => node === this.#name)
  }

  open(name) {
    this.#name = name
  }

  close() {}

  draw(problems) {
    const node = this.#node
    text($("node-title"), node ? nameOf(node) : this.#name)
    text($("node-about"), [`node ${this.#name}`, node?.self && "this page comes from it"].filter(Boolean).join(", "))
    drawProblems($("node-problems"), problems.filter(({ nodes }) => nodes.includes(this.#name)))
    $("node-none").hidden = Boolean(node)
    text($("node-none"), this.#fleet.at === undefined ? "Not known yet." : "No such node is believed to live. A node that starts again has another name.")
    $("node-there").hidden = $("node-mark").hidden = $("node-drain").hidden = !node
    if (!node) return
    const [kind, words] = stateOf(node)
    $("view-node").dataset.state = kind
    text($("node-mark"), words)
    attribute($("node-drain"), "disabled", node.gone || node.draining ? "" : undefined)
    pairs($("node-load"), loadOf(node))
    const own = new Map(ownOf(node, compare(this.#fleet.comparable)).map(([name, value, usual]) => [name, usual === undefined ? `${value}: no two agree, or no value is most nodes’` : `${value}: most nodes have ${usual}`]))
    pairs($("node-settings"), [...own].map(([name, words]) => [name, words, "differs"]).concat(settingsOf(node).filter(([name]) => !own.has(name))))
  }
}

function loadOf({ began, gone, heard, load, p99, admin, webhooks }) {
  if (!load) return [["Load", "It has not said."]]
  const ms = (n) => (n ? `${rough(n)} ms` : "none of late")
  return [
    ["Up for", began !== undefined && !gone ? duration(performance.now() - began) : "–"], ["Last heard of", clockAt(heard)],
    ["Connections", `${count(load.connections)} of ${count(load.max_connections)}`], ["Rooms", count(load.rooms)], ["Members", count(load.members)],
    ["Watchers", count(load.watchers)], ["Lost connections in their grace", count(load.graces)],
    ["Actions that wait for a lock", `${count(load.queue)}, in ${plural(load.busy_rooms, "busy room")}`],
    ["Actions, p99", ms(p99.action_ms)], ["Waiting for a lock, p99", ms(p99.lock_wait_ms)], ["Holding a lock, p99", ms(p99.lock_hold_ms)],
    ["Memory", bytes(load.memory_bytes)], ["Operators’ address", admin || "none"],
    ...(webhooks ?? []).map(({ receiver, lag_ms }) => [`Webhook ${receiver}`, lag_ms ? `${duration(lag_ms)} behind` : "waits for nothing from this node"]),
  ]
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
