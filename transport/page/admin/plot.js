// One chart: lines over the last three minutes, and a table that says the same in numbers. uPlot draws the lines; see
// index.html.

import { attribute, make, patch, text } from "./dom.js"
import { clockAt, rough } from "./format.js"
import { span } from "./history.js"

/* global uPlot */

const height = 210
const dashes = [undefined, [7, 4], [2, 4], [9, 4, 2, 4], [14, 4], [4, 2]] // of the colours in charts.css

const variable = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim()

/** Plot is a figure. Each series is {id, label, colour, thin, values}, with a value for each time; null is a gap. */
export class Plot {
  element
  #title
  #unit
  #place = make("div", { class: "chart", role: "img" })
  #rows = make("tbody")
  #latest = make("th", { scope: "col", class: "number" }, "now")
  #chart
  #looks = ""
  #times = []
  #series = []

  constructor(title, unit) {
    this.#title = title
    this.#unit = unit
    this.element = make("figure", { class: "plot card" }, make("figcaption", {}, make("h2", {}, title), make("span", { class: "muted" }, unit)), this.#place,
      make("table", { class: "legend" }, make("caption", { class: "for-readers" }, `${title}, ${unit}`),
        make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "line"), this.#latest,
          make("th", { scope: "col", class: "number" }, "mean"), make("th", { scope: "col", class: "number" }, "highest"))), this.#rows))
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#chart?.redraw())
    new ResizeObserver(() => this.#chart?.setSize({ width: this.#width(), height })).observe(this.#place)
  }

  /** Draws the series up to now. */
  draw(times, series) {
    this.#times = times
    this.#series = series
    const data = [times, ...series.map(({ values }) => values)]
    const looks = series.map(({ colour, thin }) => `${colour}${thin}`).join()
    if (!this.#chart || looks !== this.#looks) {
      this.#looks = looks
      this.#chart?.destroy()
      this.#chart = new uPlot(this.#options(series), data, this.#place)
    } else {
      this.#chart.setData(data)
    }
    this.#tell()
  }

  #width() {
    return Math.max(200, this.#place.clientWidth)
  }

  #options(series) {
    const axis = { stroke: () => variable("--soft"), grid: { stroke: () => variable("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui" }
    const minutes = [3, 2, 1, 0]
    return {
      width: this.#width(), height, legend: { show: false },
      cursor: { sync: { key: "charts" }, drag: { x: false, y: false }, y: false },
      scales: {
        x: { time: false, range: () => [this.#now() - span, this.#now()] },
        y: { range: (_, __, highest) => (highest > 0 ? uPlot.rangeNum(0, highest, 0.1, true) : [0, 1]) },
      },
      axes: [
        { ...axis, size: 30, grid: { show: false }, splits: () => minutes.map((n) => this.#now() - n * 60_000), values: () => minutes.map((n) => (n ? `−${n} min` : "now")) },
        { ...axis, size: 54, values: (_, splits) => splits.map(rough) },
      ],
      series: [{}, ...series.map(({ colour, thin }) => ({
        stroke: () => variable(`--c${colour}`), width: thin ? 1 : 2, dash: dashes[colour],
        points: { show: true, size: 5, fill: () => variable(`--c${colour}`), filter: alone },
      }))],
      hooks: { setCursor: [() => this.#tell()] },
    }
  }

  #now() {
    return this.#times.at(-1) ?? performance.now()
  }

  /** Writes the table: the values where the pointer is on any of the charts, or else the latest. */
  #tell() {
    const at = this.#chart?.cursor.left >= 0 ? this.#chart.cursor.idx : undefined
    text(this.#latest, at === undefined || at === null ? "now" : clockAt(this.#times[at]))
    const facts = this.#series.map((one) => ({ ...one, ...summary(one.values, at) }))
    attribute(this.#place, "aria-label", `${this.#title}, ${this.#unit}, over the last three minutes. ${facts.slice(0, 4).map(({ label, latest, highest }) => `${label}: ${words(latest)} now, ${words(highest)} at most.`).join(" ")}`)
    patch(this.#rows, facts, { key: ({ id }) => id, create: legendRow, update: updateLegend })
  }
}

const words = (value) => (value === null ? "nothing" : rough(value))

/** Points without a neighbour, which no line shows. */
const alone = ({ data }, series) => data[series].flatMap((value, i, all) => (value !== null && (all[i - 1] ?? null) === null && (all[i + 1] ?? null) === null ? [i] : []))

function summary(values, at) {
  const known = values.filter((value) => value !== null)
  return {
    latest: values[at ?? values.length - 1] ?? null,
    mean: known.length ? known.reduce((sum, value) => sum + value, 0) / known.length : null,
    highest: known.length ? Math.max(...known) : null,
  }
}

function legendRow() {
  const number = () => make("td", { class: "number" })
  return make("tr", {}, make("th", { scope: "row" }, make("span", { "aria-hidden": "true" }), make("span")), number(), number(), number())
}

function updateLegend(row, { label, colour, thin, latest, mean, highest }) {
  const [name, ...numbers] = row.children
  attribute(name.firstChild, "class", `swatch c${colour}${thin ? " thin" : ""}`)
  text(name.lastChild, label)
  ;[latest, mean, highest].forEach((value, i) => text(numbers[i], value === null ? "–" : rough(value)))
}
