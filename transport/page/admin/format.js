// How numbers and times are written.

export const count = (n) => n.toLocaleString("en")

/** A length of time in ms, in its largest two units: "3 min 20 s". */
export function duration(ms) {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`
  const s = Math.floor(ms / 1000)
  if (s < 60) return `${s} s`
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`
  if (s < 86_400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`
  return `${Math.floor(s / 86_400)} d ${Math.floor((s % 86_400) / 3600)} h`
}

export function bytes(n) {
  let unit = 0
  for (; n >= 1024 && unit < 4; unit++) n /= 1024
  return `${n.toLocaleString("en", { maximumFractionDigits: n < 10 && unit > 0 ? 1 : 0 })} ${["B", "KiB", "MiB", "GiB", "TiB"][unit]}`
}

/** A number for people: three digits count. */
export const rough = (n) => n.toLocaleString("en", { maximumSignificantDigits: 3, notation: Math.abs(n) >= 100_000 ? "compact" : "standard" })

/** The time of day, of ms since 1970. */
export const clock = (ms) => new Date(ms).toLocaleTimeString("en-GB")

/** The time of day of a moment by performance.now(), by which all is measured here: nobody sets it. */
export const clockAt = (moment) => clock(Date.now() - performance.now() + moment)

export const byteLength = (text) => new TextEncoder().encode(text).length
