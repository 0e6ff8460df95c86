// All nodes that the page has heard of, also those that say nothing any more.

const silentAfter = 4000 // ms; a node reports about once a second
const remembered = 300_000 // ms for which a node that is gone is shown

/** Fleet remembers when each node was last heard of. */
export class Fleet {
  #nodes = new Map() // by name

  /** Takes the list of the API. Times are this browser's. */
  update(list, now = Date.now()) {
    const listed = new Set()
    for (const node of list) {
      listed.add(node.node)
      const before = this.#nodes.get(node.node)
      const heard = node.age_ms === undefined ? before?.heard : now - node.age_ms
      this.#nodes.set(node.node, { ...before, ...node, heard, gone: undefined, silent: heard === undefined || now - heard > silentAfter, reports: node.age_ms !== undefined })
    }
    for (const [name, node] of this.#nodes) {
      if (listed.has(name)) continue
      node.gone ??= now
      if (node.heard === undefined || now - node.gone > remembered) this.#nodes.delete(name) // a program without a server comes and goes
    }
  }

  /** Nodes by name, those that are gone last. */
  get all() {
    return [...this.#nodes.values()].sort((a, b) => Boolean(a.gone) - Boolean(b.gone) || (a.node < b.node ? -1 : 1))
  }

  /** Nodes that are believed to live. */
  get live() {
    return this.all.filter((node) => !node.gone)
  }

  /** Nodes whose reports are fresh enough to count. */
  get heard() {
    return this.live.filter((node) => node.reports && !node.silent)
  }
}
