// What is wrong now: a line for each room, node, setting and receiver, which leads there.

import { invariants } from "./checks.js"
import { $, announce, attribute, make, patch, plural, text } from "./dom.js"
import { nameOf, nodeLink, stateOf } from "./fleet.js"
import { clockAt, duration } from "./format.js"
import { compare, differs, settingLink } from "./settings.js"

const longWait = 1000 // ms for which an action waits for a lock
const farBehind = 10_000 // ms
const few = 3 // of a kind that are shown at first

const kinds = [
  { kind: "room", sum: (n) => `${plural(n, "room")} ${n === 1 ? "differs" : "differ"}` },
  { kind: "node", sum: (n) => `${plural(n, "node")} ${n === 1 ? "is" : "are"} silent or gone` },
  { kind: "setting", sum: (n) => `${plural(n, "setting")} ${n === 1 ? "differs" : "differ"}` },
  { kind: "wait", sum: (n) => `${plural(n, "room")} ${n === 1 ? "waits" : "wait"} for a lock` },
  { kind: "webhook", sum: (n) => `${plural(n, "webhook")} ${n === 1 ? "is" : "are"} behind` },
]

/**
 * Finds the problems of a fleet, the gravest first. Each is {kind, href, title, what, grave, room, nodes}: where it leads,
 * what it is, and which room and which nodes (by name) have it.
 */
export const find = (fleet, now = performance.now()) => [...ofRooms(fleet.live), ...ofNodes(fleet.all, now), ...ofSettings(fleet.comparable), ...ofWaits(fleet.heard), ...ofWebhooks(fleet.heard)]

const roomLink = (room) => `#room=${encodeURIComponent(room)}`

function ofRooms(nodes) {
  const rooms = new Map()
  for (const { name, bad } of invariants) {
    for (const { node, checks } of nodes) {
      for (const { room, what } of checks?.[name]?.differs ?? []) {
        if (!rooms.has(room)) rooms.set(room, { said: new Map(), nodes: new Set() })
        rooms.get(room).nodes.add(node)
        if (!rooms.get(room).said.has(name)) rooms.get(room).said.set(name, `${bad}: ${what}`)
      }
    }
  }
  return [...rooms].map(([room, { said, nodes }]) => ({ kind: "room", href: roomLink(room), title: `Room ${room} differs`, what: [...said.values()].join("\n"), grave: true, room, nodes: [...nodes] }))
}

function ofNodes(nodes, now) {
  return nodes.flatMap((node) => {
    const [state, words] = stateOf(node, now)
    const wrong = state === "silent" || state === "gone" || (state === "mute" && node.address)
    return wrong ? [{ kind: "node", href: nodeLink(node), title: `Node ${nameOf(node)}`, what: state === "mute" ? `${words}: it stands still, or its version is old` : words, grave: state !== "mute", nodes: [node.node] }] : []
  })
}

function ofSettings(nodes) {
  return compare(nodes).filter(differs).map(({ name, values, usual }) => {
    const rare = values.filter(([value]) => value !== usual)
    const said = rare.slice(0, few).map(([value, nodes]) => `${value} on ${nodes.slice(0, 2).map(nameOf).join(", ")}${nodes.length > 2 ? ` and ${nodes.length - 2} more` : ""}`)
    const what = [...said, rare.length > few ? `${plural(rare.length - few, "other value")}` : "", usual === undefined ? "" : `most have ${usual}`].filter(Boolean).join("; ")
    return { kind: "setting", href: settingLink(name), title: name === "version" ? "Versions differ" : `Setting ${name} differs`, what, nodes: rare.flatMap(([, nodes]) => nodes.map(({ node }) => node)) }
  })
}

function ofWaits(nodes) {
  const rooms = new Map()
  for (const node of nodes) {
    for (const { room, actions, ms } of node.waiting ?? []) {
      if (ms < longWait) continue
      const all = rooms.get(room) ?? { actions: 0, ms: 0, nodes: [] }
      rooms.set(room, { actions: all.actions + actions, ms: Math.max(all.ms, ms), nodes: [...all.nodes, node] })
    }
  }
  return [...rooms].sort(([, a], [, b]) => b.ms - a.ms).map(([room, { actions, ms, nodes }]) => ({
    kind: "wait", href: roomLink(room), title: `Room ${room} waits`, room, nodes: nodes.map(({ node }) => node),
    what: `${plural(actions, "action")} for its lock, for ${duration(ms)}, on ${nodes.slice(0, 2).map(nameOf).join(", ")}${nodes.length > 2 ? ` and ${nodes.length - 2} more` : ""}`,
  }))
}

function ofWebhooks(nodes) {
  return nodes.flatMap((node) => (node.webhooks ?? []).filter(({ lag_ms }) => lag_ms >= farBehind).map(({ receiver, lag_ms }) => ({
    kind: "webhook", href: nodeLink(node), title: `Webhook ${receiver}`, what: `${duration(lag_ms)} behind: it does not take what ${nameOf(node)} sends`, nodes: [node.node],
  })))
}

/** Draws problems into a list. What leads to the page that is shown is no link. */
export function drawProblems(list, problems) {
  list.hidden = problems.length === 0
  patch(list, problems, {
    key: (problem) => problem.more ?? `${problem.kind} ${problem.title} ${problem.href === location.hash}`,
    create: (problem) => (problem.more ? createMore(problem) : make("li", {}, createLine(problem))),
    update: (item, problem) => {
      if (problem.more) return text(item.firstChild, `${problem.sum} in all: show ${problem.hidden} more`)
      const line = item.firstChild
      attribute(line, "data-kind", problem.kind)
      attribute(line, "data-grave", problem.grave)
      text(line.lastChild, problem.what)
    },
  })
}

function createLine({ href, title }) {
  const there = href === location.hash
  return make(there ? "div" : "a", { class: "problem", ...(!there && { href }) }, make("strong", {}, title), " ", make("span", { dir: "auto" }))
}

function createMore({ show }) {
  const button = make("button", { type: "button", class: "small" })
  button.onclick = show
  return make("li", {}, button)
}

/** Problems are those of the overview, and tells of grave ones whatever view is shown. */
export class Problems {
  all = []
  #fleet
  #opened = new Set() // kinds of which all are shown
  #told = new Map() // title by key, of grave ones that the page has told of

  constructor(fleet) {
    this.#fleet = fleet
  }

  /** Finds them again. */
  update() {
    this.all = find(this.#fleet)
    const grave = new Map(this.all.filter((problem) => problem.grave).map((problem) => [`${problem.kind} ${problem.title}`, problem]))
    for (const [key, { title }] of grave) if (!this.#told.has(key)) announce(`Wrong now: ${title}.`)
    for (const [key, { title }] of this.#told) if (!grave.has(key)) announce(`No longer wrong: ${title}.`)
    this.#told = grave
    $("badge").hidden = this.all.length === 0
    text($("badge-count"), String(this.all.length))
  }

  /** Draws them on the overview. `current` says that the nodes have just been heard. */
  draw(current) {
    const { at, live } = this.#fleet
    const unnamed = hidden(live)
    const parts = kinds.map((one) => ({ ...one, some: this.all.filter(({ kind }) => kind === one.kind) }))
    const sums = parts.filter(({ some }) => some.length).map(({ some, sum }) => sum(some.length))
    if (unnamed) sums.push(`at least ${plural(unnamed, "room")} more ${unnamed === 1 ? "differs" : "differ"} that no node names`)
    const good = `Nothing, as far as ${plural(live.length, "node")} ${live.length === 1 ? "says" : "say"}.`
    const words = at === undefined ? "Not known yet." : sums.length ? `${sums.join(", ")}.` : live.length ? good : "No node is believed to live."
    $("problems").dataset.state = at === undefined || !current ? "idle" : sums.length || !live.length ? "bad" : "good"
    text($("problems-count"), at === undefined || current ? words : `As of ${clockAt(at)}: ${words}`)
    drawProblems($("problems-list"), parts.flatMap((part) => this.#shown(part)))
  }

  #shown({ kind, some, sum }) {
    const most = this.#opened.has(kind) ? some.length : few
    if (some.length <= most + 1) return some // a button would take as much room
    const show = () => {
      this.#opened.add(kind)
      this.draw(true)
      document.querySelectorAll(`#problems-list [data-kind="${kind}"]`)[few].focus({ preventScroll: true })
    }
    return [...some.slice(0, most), { more: `more ${kind}`, sum: sum(some.length), hidden: some.length - most, show }]
  }
}

/** How many rooms differ at least beyond those that nodes name: several nodes may mean the same room. */
const hidden = (nodes) => Math.max(0, ...nodes.flatMap(({ checks }) => Object.values(checks ?? {}).map(({ rooms, differs }) => rooms - differs.length)))
