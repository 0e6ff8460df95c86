// The view of the charts: which nodes, and which lines.

import { $, make, patch, text } from "./dom.js"
import { Plot } from "./plot.js"

const most = 6 // nodes drawn one by one
const tooFar = 5000 // ms between two frames that no line joins

const plots = [
  { title: "Actions", unit: "a second", lines: [["actions", ""]] },
  { title: "Failed actions", unit: "a second", lines: [["failed", ""]] },
  { title: "Waiting for a lock", unit: "milliseconds", lines: [["waitP99", "p99"], ["wait", "average"]] },
  { title: "Holding a lock", unit: "milliseconds", lines: [["holdP99", "p99"], ["hold", "average"]] },
]

/** Charts draws a History while it is open. */
export class Charts {
  #history
  #open = false

  constructor(history) {
    this.#history = history
    for (const plot of plots) {
      plot.drawn = new Plot(plot.title, plot.unit)
      $("plots").append(plot.drawn.element)
    }
    $("charts-nodes").onchange = () => this.draw()
    new ResizeObserver(() => this.draw()).observe($("plots"))
  }

  open() {
    this.#open = true
    this.draw()
  }

  close() {
    this.#open = false
  }

  draw() {
    if (!this.#open) return
    const { frames, names } = this.#history
    const choices = [["", "all nodes together"], ["*", "node by node"], ...[...names].sort()]
    patch($("charts-nodes"), choices, {
      key: ([value]) => value,
      create: ([value, label]) => make("option", { value }, label),
      update: (option, [, label]) => text(option, label),
    })
    const chosen = $("charts-nodes").value
    const shown = chosen === "*" ? this.#busiest() : [chosen]
    text($("charts-about"), frames.length < 2 ? "The page counts from now on." : chosen === "" && names.size > 1 ? "Rates are summed. The p99 is that of the slowest node."
      : shown.length < names.size && chosen === "*" ? `The ${most} busiest of ${names.size} nodes.` : "")
    const joined = withGaps(frames)
    for (const { drawn, lines } of plots) drawn.draw(joined.map(({ at }) => at), shown.flatMap((node, i) => this.#series(joined, node, i, lines)))
  }

  /** The lines of a node, or of all together. A colour is a node, or with one only, a line of its own. */
  #series(frames, node, index, lines) {
    const { names } = this.#history
    const alone = $("charts-nodes").value !== "*"
    const who = node ? (names.get(node) ?? node) : "all nodes"
    return lines.map(([measure, label], i) => ({
      id: `${node} ${measure}`, label: alone ? label || who : [who, label].filter(Boolean).join(" "),
      colour: alone ? i : index, thin: !alone && i > 0,
      values: frames.map(({ nodes, all }) => (node ? nodes.get(node) : all)?.[measure] ?? null),
    }))
  }

  #busiest() {
    const { frames, names } = this.#history
    const sum = (name) => frames.reduce((total, { nodes }) => total + (nodes.get(name)?.actions ?? 0), 0)
    const sums = new Map([...names.keys()].map((name) => [name, sum(name)]))
    return [...names.keys()].sort((a, b) => sums.get(b) - sums.get(a)).slice(0, most).sort()
  }
}

/** The frames, with an empty one between two that are far apart. */
const withGaps = (frames) => frames.flatMap((frame, i) => (i && frame.at - frames[i - 1].at >= tooFar ? [{ at: (frame.at + frames[i - 1].at) / 2, nodes: new Map(), all: null }, frame] : [frame]))
