// The tiles of the invariants: what the nodes have checked in the rooms of their clients.

import { $, make, patch, plural, text } from "./dom.js"

/** What is checked: in words if it holds, and if not. */
export const invariants = [
  { name: "copies", good: "Redis has what the nodes know", bad: "Redis does not have what the nodes know" },
  { name: "seats", good: "No seat is taken twice", bad: "A seat is taken twice" },
  { name: "capacity", good: "No room has more members than seats", bad: "It has more members than seats" },
  { name: "versions", good: "Versions have no gaps", bad: "Versions have a gap" },
]

/** Draws what the nodes say. A node that is gone says nothing. */
export function drawChecks(nodes) {
  const states = invariants.map((check) => ({ ...check, ...summary(check.name, nodes) }))
  text($("checks-count"), `${plural(states[0].checked, "check")} of rooms so far`)
  patch($("checks"), states, { key: (state) => state.name, create, update })
}

function summary(name, nodes) {
  const found = nodes.flatMap(({ checks }) => checks?.[name] ?? [])
  const differ = new Set(found.flatMap(({ differs }) => differs.map(({ room }) => room)))
  return {
    checked: found.reduce((sum, { checked }) => sum + checked, 0),
    differ: found.reduce((sum, { rooms, differs }) => sum + Math.max(0, rooms - differs.length), differ.size), // some are not named
  }
}

function create() {
  return make("li", { class: "tile card" }, make("p", { class: "verdict" }, make("span", { class: "sign", "aria-hidden": "true" }), make("strong")), make("p", { class: "muted" }))
}

function update(tile, { name, good, checked, differ }) {
  const [verdict, about] = tile.children
  tile.dataset.check = name
  tile.dataset.state = differ ? "bad" : checked ? "good" : "idle"
  text(verdict.firstChild, differ ? "!" : checked ? "✓" : "–")
  text(verdict.lastChild, good)
  text(about, differ ? `Not so in ${plural(differ, "room")}.` : checked ? "All rooms are as they should be." : "No room has been checked yet.")
}
