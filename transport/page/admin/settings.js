// The settings of all nodes: which differ, and the view of one.

import { $, attribute, make, patch, plural, text } from "./dom.js"
import { nameOf, nodeLink } from "./fleet.js"

/** What a node says of its settings, among which its version counts: [name, value] each, by the names that flags have. */
export const settingsOf = ({ version, settings }) => Object.entries({ ...(version && { version }), ...settings }).map(([name, value]) => [name.replaceAll("_", "-"), value])

/**
 * Compares the settings of nodes. Returns an array of
 * {name, values, usual}: values are [value, nodes], and usual is the value of more than half of the nodes, or undefined.
 */
export function compare(nodes) {
  const all = new Map() // name: value: nodes
  for (const node of nodes) {
    for (const [name, value] of settingsOf(node)) {
      if (!all.has(name)) all.set(name, new Map())
      const values = all.get(name)
      if (!values.has(value)) values.set(value, [])
      values.get(value).push(node)
    }
  }
  return [...all].map(([name, of]) => {
    const values = [...of].sort(([, a], [, b]) => a.length - b.length)
    const total = values.reduce((sum, [, nodes]) => sum + nodes.length, 0)
    return { name, values, usual: values.find(([, nodes]) => nodes.length * 2 > total)?.[0] }
  })
}

export const differs = ({ values }) => values.length > 1

/** What a node has otherwise than most, from what compare returns: [name, value, usual] each. */
export const ownOf = (node, compared) => compared.filter(differs).flatMap(({ name, values, usual }) =>
  values.filter(([value, nodes]) => value !== usual && nodes.some((one) => one.node === node.node)).map(([value]) => [name, value, usual]))

export const settingLink = (name) => `#setting=${encodeURIComponent(name)}`

/** Setting shows which nodes have which value of one setting, the rarest first. */
export class Setting {
  #fleet
  #name

  constructor(fleet) {
    this.#fleet = fleet
  }

  open(name) {
    this.#name = name
    text($("setting-title"), name === "version" ? "Version" : `Setting ${name}`)
  }

  close() {}

  draw() {
    const { values, usual } = compare(this.#fleet.comparable).find(({ name }) => name === this.#name) ?? { values: [] }
    $("setting-table").hidden = values.length === 0
    text($("setting-count"), values.length === 0 ? "No node says what it has." : values.length > 1 ? `${plural(values.length, "value")}: all nodes should have the same.` : "All nodes have the same.")
    patch($("setting-rows"), values, {
      key: ([value]) => value,
      create: ([value]) => make("tr", {}, make("th", { scope: "row" }, value), make("td", {}, make("p", { class: "muted" }), make("ul", { class: "list" }))),
      update: (row, [value, nodes]) => {
        const [heading, { firstChild: count, lastChild: list }] = row.children
        attribute(heading, "class", values.length > 1 && value !== usual ? "differs" : undefined)
        text(count, plural(nodes.length, "node"))
        patch(list, nodes, {
          key: ({ node }) => node,
          create: (node) => make("li", {}, make("a", { href: nodeLink(node) })),
          update: (item, node) => text(item.firstChild, nameOf(node)),
        })
      },
    })
  }
}
