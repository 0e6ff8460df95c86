// Which seats of a room are drawn, and where around the table.

/** How many seats a table without a limit shows at least. */
const fewest = 8

/**
 * The places to draw, in the order of seats, at most `most`: {seat, user}, without `user` if free.
 * A small table has all its seats. Of a large one there are those that are taken, and some free ones if there is room.
 * `own` is always there. `hidden` is how many players are not.
 */
export function places(users, capacity, own, most) {
  const bySeat = new Map(users.map((user) => [user.seat, user]))
  const seats = []
  if (capacity > 0 && capacity <= most) {
    const last = Math.max(capacity, ...users.map((user) => user.seat + 1)) // settings may have shrunk the table
    for (let seat = 0; seat < Math.min(last, most); seat++) seats.push(seat)
  } else {
    // No chair is drawn empty while a player has no place in the picture.
    const wanted = Math.min(Math.max(2, fewest - users.length), Math.max(0, most - users.length))
    seats.push(...users.slice(0, most).map((user) => user.seat), ...freeSeats(bySeat, capacity, wanted))
  }
  if (own !== undefined && !seats.includes(own)) seats[seats.length - 1] = own
  seats.sort((a, b) => a - b)
  const drawn = seats.map((seat) => ({ seat, user: bySeat.get(seat) }))
  return { drawn, hidden: users.length - drawn.filter((place) => place.user).length }
}

/** The lowest free seats, `wanted` of them if there are so many. */
function freeSeats(bySeat, capacity, wanted) {
  const free = []
  for (let seat = 0; free.length < wanted && (capacity === 0 || seat < capacity); seat++) {
    if (!bySeat.has(seat)) free.push(seat)
  }
  return free
}

/**
 * Points around the table at equal distances along its edge, clockwise, the first one at the bottom.
 * `aspect` is width by height; `power` is 2 for an ellipse, more for a shape with fuller corners.
 * Coordinates go from 0 to 1.
 */
export function around(count, { aspect, power, rx, ry }) {
  const steps = 720
  const point = (i) => {
    const angle = Math.PI / 2 + (2 * Math.PI * i) / steps
    const bend = (v) => Math.sign(v) * Math.abs(v) ** (2 / power)
    return { x: 0.5 + rx * bend(Math.cos(angle)), y: 0.5 + ry * bend(Math.sin(angle)) }
  }
  const lengths = [0]
  for (let i = 1; i <= steps; i++) {
    const [a, b] = [point(i - 1), point(i)]
    lengths.push(lengths[i - 1] + Math.hypot((b.x - a.x) * aspect, b.y - a.y))
  }
  const points = []
  let i = 0
  for (let n = 0; n < count; n++) {
    while (lengths[i] < (lengths[steps] * n) / count) i++
    points.push(point(i))
  }
  return points
}

const segments = typeof Intl.Segmenter === "function" ? new Intl.Segmenter(undefined, { granularity: "grapheme" }) : undefined

/** The first letter of a name, as people see it: an emoji of several characters is one. */
export function initial(name) {
  const first = segments ? segments.segment(name)[Symbol.iterator]().next().value?.segment : [...name][0]
  const plain = (first ?? "?").normalize("NFC")
  return plain.replace(/(\p{M})\p{M}+/gu, "$1").toLocaleUpperCase()
}

/** A hue that stays the same for a name. */
export function hueOf(name) {
  let hash = 2166136261
  for (let i = 0; i < name.length; i++) hash = Math.imul(hash ^ name.charCodeAt(i), 16777619)
  return (hash >>> 0) % 360
}
