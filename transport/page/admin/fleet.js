// All nodes that the page has heard of, also those that say nothing any more.

import { serverTime } from "./api.js"
import { clockAt, duration } from "./format.js"

const silentAfter = 4000 // ms; a node reports about once a second
const remembered = 300_000 // ms for which a node that is gone is shown

/** Fleet remembers when each node was last heard of. */
export class Fleet {
  #nodes = new Map() // by name

  /** When the list came that counts, undefined before the first. */
  at

  /** Takes the list of the API. Times are by performance.now(). */
  update(list, now = performance.now()) {
    this.at = now
    const listed = new Set()
    for (const node of list) {
      listed.add(node.node)
      const before = this.#nodes.get(node.node)
      const heard = node.age_ms === undefined ? before?.heard : now - node.age_ms
      const began = node.started && now - (serverTime() - node.started)
      const settings = { ...before?.settings, ...node.settings } // of a node that says nothing the API knows some only
      this.#nodes.set(node.node, { ...before, ...node, settings, began, heard, gone: undefined, silent: heard === undefined || now - heard > silentAfter, reports: node.age_ms !== undefined })
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

  /** Nodes whose settings are compared: also those that say nothing now, but no programs without a server. */
  get comparable() {
    return this.live.filter((node) => node.heard !== undefined || node.address)
  }

  /** Nodes whose reports are fresh enough to count. */
  get heard() {
    return this.live.filter((node) => node.reports && !node.silent)
  }
}

export const nameOf = (node) => node.address || (node.heard === undefined ? "a program without a server" : "a node without an address")

export const nodeLink = (node) => `#node=${encodeURIComponent(node.node)}`

/** What to say of a node: [kind, words]. */
export function stateOf(node, now = performance.now()) {
  if (node.gone) return [node.draining ? "stopped" : "gone", `${node.draining ? "stopped" : "gone"} since ${clockAt(node.draining ? node.gone : (node.heard ?? node.gone))}`]
  if (node.heard === undefined) return ["mute", "does not report"] // it stands still, is of an older version, or no server
  if (node.silent) return ["silent", `silent since ${clockAt(node.heard)}, for ${duration(now - node.heard)}`]
  return node.draining ? ["draining", "draining"] : ["up", "reports"]
}
