// One chart: lines over the last three minutes, and a table that says the same in numbers.

import { attribute, make, patch, text } from "./dom.js"
import { clock, rough } from "./format.js"
import { span } from "./history.js"

const height = 190
const edge = { left: 46, right: 12, top: 10, bottom: 24 }

function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag)
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value)
  element.append(...children)
  return element
}

/** Plot is a figure. Each series is {id, label, colour, thin, points: [{at, value}]}; null values are gaps. */
export class Plot {
  element
  #svg
  #rows
  #title
  #unit
  #latest

  constructor(title, unit, moved) {
    this.#title = title
    this.#unit = unit
    this.#svg = svg("svg", { role: "img", height })
    this.#rows = make("tbody")
    this.#latest = make("th", { scope: "col", class: "number" }, "now")
    this.element = make("figure", { class: "plot card" }, make("figcaption", {}, make("h2", {}, title), make("span", { class: "muted" }, unit)), this.#svg,
      make("table", { class: "legend" }, make("caption", { class: "for-readers" }, `${title}, ${unit}`),
        make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "line"), this.#latest,
          make("th", { scope: "col", class: "number" }, "mean"), make("th", { scope: "col", class: "number" }, "highest"))), this.#rows))
    this.#svg.onpointermove = ({ offsetX }) => moved((offsetX - edge.left) / (this.#svg.clientWidth - edge.left - edge.right))
    this.#svg.onpointerleave = () => moved(undefined)
  }

  /** Draws the series up to now. `pointed` is where the pointer is, from 0 to 1, or undefined. */
  draw(series, now, pointed) {
    const width = Math.max(200, this.#svg.clientWidth)
    const inner = width - edge.left - edge.right
    const top = niceTop(Math.max(0, ...series.flatMap(({ points }) => points.map(({ value }) => value ?? 0))))
    const x = (at) => edge.left + inner * (1 - (now - at) / span)
    const y = (value) => edge.top + (height - edge.top - edge.bottom) * (1 - value / top)
    const at = pointed >= 0 && pointed <= 1 ? now - span * (1 - pointed) : undefined
    this.#svg.setAttribute("viewBox", `0 0 ${width} ${height}`)
    this.#svg.replaceChildren(...axes(width, top, x, y, now), ...series.flatMap((one) => line(one, x, y)),
      ...(at === undefined ? [] : [svg("line", { class: "pointed", x1: x(at), x2: x(at), y1: edge.top, y2: height - edge.bottom })]))
    text(this.#latest, at === undefined ? "now" : clock(at))
    const facts = series.map((one) => ({ ...one, ...summary(one.points, at) }))
    attribute(this.#svg, "aria-label", `${this.#title}, ${this.#unit}, over the last three minutes. ${facts.slice(0, 4).map(({ label, latest, highest }) => `${label}: ${words(latest)} now, ${words(highest)} at most.`).join(" ")}`)
    patch(this.#rows, facts, { key: ({ id }) => id, create: legendRow, update: updateLegend })
  }
}

const words = (value) => (value === null ? "nothing" : rough(value))

function summary(points, at) {
  const known = points.filter(({ value }) => value !== null)
  const near = at === undefined ? points.at(-1) : points.reduce((best, point) => (!best || Math.abs(point.at - at) < Math.abs(best.at - at) ? point : best), undefined)
  return {
    latest: near && (at === undefined || Math.abs(near.at - at) < 3000) ? near.value : null,
    mean: known.length ? known.reduce((sum, { value }) => sum + value, 0) / known.length : null,
    highest: known.length ? Math.max(...known.map(({ value }) => value)) : null,
  }
}

function legendRow() {
  const swatch = svg("svg", { class: "swatch", width: 28, height: 10, "aria-hidden": "true" }, svg("line", { x1: 1, x2: 27, y1: 5, y2: 5 }))
  const number = () => make("td", { class: "number" })
  return make("tr", {}, make("th", { scope: "row" }, swatch, make("span")), number(), number(), number())
}

function updateLegend(row, { label, latest, mean, highest, ...look }) {
  const [name, ...numbers] = row.children
  attribute(name.firstChild.firstChild, "class", lineClass(look))
  text(name.lastChild, label)
  ;[latest, mean, highest].forEach((value, i) => text(numbers[i], value === null ? "–" : rough(value)))
}

const lineClass = ({ colour, thin }) => `line c${colour}${thin ? " thin" : ""}`

/** The lines behind the data, with what they stand for. */
function axes(width, top, x, y, now) {
  const label = (words, attributes) => svg("text", { class: "label", ...attributes }, words)
  const lines = []
  for (const part of [0, 0.25, 0.5, 0.75, 1]) {
    lines.push(svg("line", { class: part ? "grid" : "axis", x1: edge.left, x2: width - edge.right, y1: y(top * part), y2: y(top * part) }),
      label(rough(top * part), { x: edge.left - 6, y: y(top * part) + 4, "text-anchor": "end" }))
  }
  for (const [minutes, anchor] of [[3, "start"], [2, "middle"], [1, "middle"], [0, "end"]]) {
    lines.push(label(minutes ? `−${minutes} min` : "now", { x: x(now - minutes * 60_000), y: height - 6, "text-anchor": anchor }))
  }
  return lines
}

/** A line with gaps where nothing is known. A point between two gaps is a dot. */
function line({ points, ...look }, x, y) {
  let path = "", dots = ""
  points.forEach(({ at, value }, i) => {
    if (value === null) return
    const place = `${x(at).toFixed(1)} ${y(value).toFixed(1)}`
    const before = joined(points[i - 1], points[i])
    if (before || joined(points[i], points[i + 1])) path += `${before ? "L" : "M"}${place}`
    else dots += `M${place}h.01`
  })
  return [svg("path", { class: lineClass(look), d: path }), svg("path", { class: `${lineClass(look)} dots`, d: dots })]
}

/** Whether two points follow each other without a gap. */
const joined = (a, b) => Boolean(a && b) && a.value !== null && b.value !== null && b.at - a.at < 5000

/** The next of 1, 2, 4 or 8 times a power of ten: a quarter of it is a short number. */
function niceTop(highest) {
  if (highest <= 0) return 1
  const power = 10 ** Math.floor(Math.log10(highest))
  return power * [1, 2, 4, 8, 10].find((n) => n * power >= highest)
}
