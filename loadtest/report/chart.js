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
    const bars = x.categories && uPlot.paths.bars({ size: [0.9, 100] })
    const low = (u) => u.scales.y.min
    const shade = (u) => {
      const { ctx, bbox } = u
      ctx.save()
      ctx.textBaseline = "top"
      ctx.font = `${10 * devicePixelRatio}px sans-serif`
      ctx.fillStyle = variable("--grid")
      for (const { from, to } of spans) {
        const left = u.valToPos(from, "x", true)
        ctx.fillRect(left, bbox.top, Math.max(1, u.valToPos(to, "x", true) - left), bbox.height)
      }
      ctx.fillStyle = variable("--soft")
      spans.forEach(({ from, name }, i) => ctx.fillText(name, u.valToPos(from, "x", true) + 2, bbox.top + (2 + 12 * (i % 4)) * devicePixelRatio))
      ctx.restore()
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
          ? { ...look, label: x.label, splits: () => x.categories.map((_, i) => i * group + (group - 2) / 2), values: () => x.categories, grid: { show: false }, rotate: x.categories.length > 5 ? -20 : 0, size: x.categories.length > 5 ? 90 : 50, space: 1 }
          : x.ticks
            ? { ...look, label: x.label, splits: () => x.ticks.map(({ at }) => at), values: () => x.ticks.map(({ text }) => text) }
            : { ...look, label: x.label },
        { ...look, label: y.label, size: 84, values: (_, splits) => splits.map(short) },
      ],
      hooks: { drawClear: [shade] },
      cursor: { points: { show: !bars }, drag: { x: !bars, y: false } },
      legend: {
        show: series.some(({ name }) => name) || !bars, live: !bars,
        markers: bars ? { fill: (_, i) => stroke(i - 1)() } : { width: 3, stroke: (_, i) => stroke(i - 1)(), dash: (_, i) => styles[pattern(i - 1)] },
      },
      series: [
        { label: x.label || "", value: (_, value) => (value === null ? "" : x.ticks ? `${+(100 - 100 * 10 ** -value).toFixed(4)} %` : short(value)) },
        ...series.map(({ name, strong }, i) => ({
          label: name || y.label, stroke: stroke(i), value: (_, value) => short(value), spanGaps: true,
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
