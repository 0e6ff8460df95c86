// The tiles of the invariants: what the nodes have found in the rooms of their clients.

import { $, announce, attribute, make, patch, plural, text } from "./dom.js"

const checks = [
  { name: "copies", good: "Redis has what the nodes know" },
  { name: "seats", good: "No seat is taken twice" },
  { name: "capacity", good: "No room has more members than seats" },
  { name: "versions", good: "Versions have no gaps" },
]

const said = new Map() // by check: the rooms that the page has told of

/** Draws what the nodes say. A node that is gone, or silent for long, says nothing. */
export function drawChecks(nodes) {
  const states = checks.map((check) => ({ ...check, ...summary(check.name, nodes) }))
  text($("checks-count"), `${plural(states[0].checked, "check")} of rooms so far`)
  patch($("checks"), states, { key: (state) => state.name, create, update })
  for (const state of states) tell(state)
}

function summary(name, nodes) {
  const all = { checked: 0, hidden: 0, differs: new Map() } // differs: what is said of a room
  for (const { checks } of nodes) {
    const one = checks?.[name]
    if (!one) continue
    all.checked += one.checked
    all.hidden += Math.max(0, one.rooms - one.differs.length)
    for (const { room, what } of one.differs) {
      if (!all.differs.has(room)) all.differs.set(room, what)
    }
  }
  return all
}

function create() {
  return make("li", { class: "tile card" },
    make("p", { class: "verdict" }, make("span", { class: "sign", "aria-hidden": "true" }), make("strong")),
    make("p", { class: "muted" }), make("ul", { class: "findings" }), make("p", { class: "muted" }))
}

function update(tile, { name, good, checked, differs, hidden }) {
  const [verdict, about, findings, more] = tile.children
  const bad = differs.size + hidden
  tile.dataset.check = name
  tile.dataset.state = bad ? "bad" : checked ? "good" : "idle"
  text(verdict.firstChild, bad ? "!" : checked ? "✓" : "–")
  text(verdict.lastChild, good)
  text(about, bad ? `Not so in ${plural(bad, "room")}:` : checked ? "All rooms are as they should be." : "No room has been checked yet.")
  patch(findings, [...differs], {
    key: ([room]) => room,
    create: ([room]) => make("li", {}, make("a", { href: `#room=${encodeURIComponent(room)}` }, `Room ${room}`), " ", make("span", { dir: "auto" })),
    update: (item, [, what]) => text(item.lastChild, what),
  })
  text(more, hidden ? `and ${plural(hidden, "room")} more` : "")
  attribute(more, "hidden", !hidden)
}

function tell({ name, good, differs, hidden }) {
  const before = said.get(name) ?? new Set()
  const fresh = [...differs.keys()].filter((room) => !before.has(room))
  if (fresh.length) announce(`Invariant violated: ${good} is not so in ${fresh.slice(0, 3).map((room) => `room ${room}`).join(", ")}${fresh.length > 3 ? " and others" : ""}.`)
  if (before.size && !differs.size && !hidden) announce(`${good}: all rooms are as they should be again.`)
  said.set(name, new Set(differs.keys()))
}
