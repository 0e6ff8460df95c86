// Draws each chart of the page. Its data are in a script element beside it; see Chart in chart.go.
{
  const variable = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim()
  const dashes = [undefined, [6, 3], [2, 3], [9, 3, 2, 3]]
  const styles = ["solid", "dashed", "dotted", "double"]
  const short = (value) => (value === null || value === undefined ? "" : value >= 1000 ? value.toLocaleString("en") : String(+value.toPrecision(4)))

  const draw = (place) => {
    const { x, y, at, series, spans = [] } = JSON.parse(place.querySelector("script").textContent)
    const stroke = (i) => () => variable(series[i].strong && !x.categories ? "--ink" : `--s${i % 8}`)
    const pattern = (i) => (series[i].strong ? 0 : Math.floor(i / 8) % 4)
    const look = { stroke: () => variable("--soft"), grid: { stroke: () => variable("--grid"), width: 1 }, ticks: { stroke: () => variable("--grid"), width: 1 } }
    const group = series.length + 1
    const where = (value) => (x.ticks ? `${+(100 - 100 * 10 ** -value).toFixed(4)} %` : short(value))
    const most = (i) => Math.max(...series[i].values.filter((value) => value !== null))
    const bars = x.categories && uPlot.paths.bars({ size: [0.9, 100] })
    const low = (u) => u.scales.y.min
    const shade = ({ ctx, bbox, valToPos }) => {
      ctx.fillStyle = variable("--grid")
      for (const { from, to } of spans) {
        const left = valToPos(from, "x", true)
        ctx.fillRect(left, bbox.top, Math.max(1, valToPos(to, "x", true) - left), bbox.height)
      }
    }
    // Names the spans above grid and lines, each on a ground of its own, and inside the chart.
    const nameSpans = ({ ctx, bbox, valToPos }) => {
      ctx.save()
      Object.assign(ctx, { textAlign: "left", textBaseline: "top", font: `${11 * devicePixelRatio}px sans-serif` })
      spans.forEach(({ from, name }, i) => {
        const wide = ctx.measureText(name).width
        const left = Math.min(valToPos(from, "x", true) + 2 * devicePixelRatio, bbox.left + bbox.width - wide)
        const top = bbox.top + (2 + 14 * (i % 4)) * devicePixelRatio
        ctx.fillStyle = variable("--grid")
        ctx.fillRect(left, top, wide, 13 * devicePixelRatio)
        ctx.fillStyle = variable("--ink")
        ctx.fillText(name, left, top)
      })
      ctx.restore()
    }
    // The names of categories lie as flat as their neighbours and the edge of the chart allow.
    const longest = 7 * Math.max(0, ...(x.categories || []).map(({ length }) => length))
    const tilt = (u) => {
      const room = (u.width - 100) / x.categories.length
      return longest < room ? 0 : Math.max(Math.asin(Math.min(1, 16 / room)), Math.acos(Math.min(1, 84 / longest)))
    }
    const options = {
      width: Math.max(320, place.clientWidth),
      height: 380,
      scales: {
        x: x.categories ? { time: false, range: [-1, x.categories.length * group - 1] } : x.ticks ? { time: false, range: [0, x.ticks.at(-1).at] } : { time: false },
        y: y.log
          ? { distr: 3, range: (_, min, max) => [10 ** (Math.ceil(Math.log10(min) - 1e-9) - 1), 10 ** Math.ceil(Math.log10(max) - 1e-9)] }
          : { range: (_, __, max) => [0, (max || 1) * 1.08] },
      },
      axes: [
        x.categories
          ? { ...look, label: x.label, splits: () => x.categories.map((_, i) => i * group + (group - 2) / 2), values: () => x.categories, grid: { show: false }, rotate: (u) => (tilt(u) * 180) / Math.PI, size: (u) => 30 + longest * Math.sin(tilt(u)), space: 1 }
          : x.ticks
            ? { ...look, label: x.label, splits: () => x.ticks.map(({ at }) => at), values: () => x.ticks.map(({ text }) => text) }
            : { ...look, label: x.label },
        { ...look, label: y.label, size: 84, values: (_, splits) => splits.map(short) },
      ],
      hooks: { drawClear: [shade], draw: [nameSpans] },
      cursor: { points: { show: !bars }, drag: { x: !bars, y: false } },
      // Under the pointer it has the values there, and otherwise what the chart spans.
      legend: {
        show: series.some(({ name }) => name) || !bars, live: !bars,
        markers: bars ? { fill: (_, i) => stroke(i - 1)() } : { width: 3, stroke: (_, i) => stroke(i - 1)(), dash: (_, i) => styles[pattern(i - 1)] },
      },
      series: [
        { label: x.label || "", value: (_, value) => (value === null ? `${where(at[0])} to ${where(at.at(-1))}` : where(value)) },
        ...series.map(({ name, strong }, i) => ({
          label: name || y.label, stroke: stroke(i), value: (u, value, _, index) => (index == null ? `at most ${short(most(i))}` : short(value)), spanGaps: true,
          ...(bars ? { fill: stroke(i), paths: bars, width: 0, points: { show: false }, fillTo: y.log ? low : 0 } : { width: strong ? 3 : 1.5, dash: dashes[pattern(i)], points: { show: false } }),
        })),
      ],
    }
    const chart = new uPlot(options, [at, ...series.map(({ values }) => values)], place)
    new ResizeObserver(() => chart.setSize({ width: Math.max(320, place.clientWidth), height: options.height })).observe(place)
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => chart.redraw())
  }

  for (const place of document.querySelectorAll(".chart")) draw(place)
}
