// The last three minutes of what the nodes counted.

export const span = 180_000 // ms
const tooFar = 6000 // ms between two reports of a node, behind which a rate says nothing of now
const sameReport = 300 // ms by which the age of one report seems to differ from one poll to the next

/** What is drawn. Each is of one node or of several. */
export const measures = ["actions", "failed", "wait", "waitP99", "hold", "holdP99"]

/** History turns the nodes' totals into rates, poll by poll. */
export class History {
  frames = [] // {at, all: values, nodes: Map of values by name}, oldest first
  names = new Map() // node: address, of all nodes in the frames
  #last = new Map() // by node: its last report, and what it came to

  /** Adds what the nodes say now. `fresh` are those whose reports count. */
  add(fresh, now = performance.now()) {
    const nodes = new Map()
    for (const node of fresh) {
      const values = this.#rates(node)
      if (values) nodes.set(node.node, values)
    }
    this.frames.push({ at: now, nodes, all: together([...nodes.values()]) })
    while (this.frames[0].at < now - span) this.frames.shift()
    const shown = new Set(this.frames.flatMap((frame) => [...frame.nodes.keys()]))
    for (const node of fresh) if (shown.has(node.node)) this.names.set(node.node, node.address)
    for (const name of this.names.keys()) if (!shown.has(name)) this.names.delete(name)
    for (const name of this.#last.keys()) if (!fresh.some((node) => node.node === name)) this.#last.delete(name)
  }

  #rates({ node, heard, totals, p99 }) {
    const before = this.#last.get(node)
    if (before && heard - before.heard < sameReport) return before.values
    const rates = before && heard - before.heard < tooFar ? between(before, { heard, totals, p99 }) : undefined
    this.#last.set(node, { heard, totals, values: rates })
    return rates
  }
}

function between(before, now) {
  const seconds = (now.heard - before.heard) / 1000
  const more = (name) => Math.max(0, now.totals[name] - before.totals[name])
  const waits = more("lock_waits"), holds = more("lock_holds")
  return {
    waits, holds, waitMS: more("lock_wait_ms"), holdMS: more("lock_hold_ms"),
    actions: more("actions") / seconds, failed: more("failed") / seconds,
    wait: waits ? more("lock_wait_ms") / waits : null, hold: holds ? more("lock_hold_ms") / holds : null,
    waitP99: waits ? now.p99.lock_wait_ms : null, holdP99: holds ? now.p99.lock_hold_ms : null,
  }
}

/** Rates are summed; averages are of all waits or holds; of percentiles only the worst can be said. */
function together(values) {
  if (!values.length) return null
  const sum = (name) => values.reduce((total, one) => total + one[name], 0)
  const worst = (name) => values.reduce((most, one) => (one[name] === null ? most : Math.max(most ?? 0, one[name])), null)
  return {
    actions: sum("actions"), failed: sum("failed"),
    wait: sum("waits") ? sum("waitMS") / sum("waits") : null, waitP99: worst("waitP99"),
    hold: sum("holds") ? sum("holdMS") / sum("holds") : null, holdP99: worst("holdP99"),
  }
}
