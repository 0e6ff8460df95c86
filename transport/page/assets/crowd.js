// A crowd of players who want the same table in the same moment: once at roomd, once at a list
// without a lock. Both return what the players were told, and what is true afterwards.

import { connect } from "./roomd.js"

const names = ["Ada", "Mei", "张三", "Omar", "Lena", "李四", "Noor", "Ivo", "王五", "Ana", "יעל", "Kofi", "Zoë", "Ravi", "Yuki", "سارة"]
const chars = "abcdefghijkmnpqrstuvwxyz23456789"

/** Letters that no other crowd has. */
function mark() {
  return [...crypto.getRandomValues(new Uint8Array(4))].map((byte) => chars[byte % chars.length]).join("")
}

/**
 * Does `work` for each item, a few at a time: browsers delay a WebSocket by seconds while sixteen
 * others are on their way. If it fails once, no other begins, and those on their way end first: so
 * the caller knows of all that were made.
 */
async function each(items, work) {
  const waiting = [...items]
  const lane = async () => {
    while (waiting.length > 0) await work(waiting.shift())
  }
  const ends = await Promise.allSettled(Array.from({ length: 6 }, () => lane().catch((error) => {
    waiting.length = 0
    throw error
  })))
  const failed = ends.find((end) => end.status === "rejected")
  if (failed) throw failed.reason
}

function crowd(count) {
  const own = mark()
  return { own, users: Array.from({ length: count }, (_, i) => `${names[i % names.length]} ${own}${i + 1}`) }
}

/**
 * Has `count` players want a table with that many seats: the first one begins it, the others come in the same
 * moment. `progress` is called with a share from 0 to 1. `begun` gets a function that has all leave, before
 * anybody comes; it is called at the end.
 */
export async function stampede(seats, count, progress, begun) {
  const { own, users } = crowd(count)
  let observer
  const players = []
  const clear = async () => {
    await Promise.allSettled([observer, ...players].map((player) => player?.close()))
  }
  begun(clear)
  try {
    await each(users, async (user) => {
      players.push(await connect("/ws", { user, timeout: 20_000 }))
      progress((0.6 * players.length) / count)
    })
    const table = await players[0].match({ stampede: own }, { settings: { capacity: seats } })
    observer = await observe(table.id, `observer ${own}`)
    let answered = 0
    const start = performance.now()
    const answers = await Promise.all(players.map(async (player, i) => {
      const answer = await (i === 0 ? Promise.resolve(table) : player.join(table.id)).then((joined) => ({ joined, seat: joined.seat, version: joined.version }), (error) => ({ error }))
      progress(0.6 + (0.4 * ++answered) / count)
      return { user: player.user, ...answer }
    }))
    const took = performance.now() - start
    const told = answers.filter((answer) => !answer.error)
    await observer.reach(Math.max(0, ...told.map(({ version }) => version)))
    const list = await observer.users()
    const there = new Set(list.map((user) => user.user))
    const missing = new Set(told.filter(({ user }) => !there.has(user)))
    const gone = new Set(await toldOtherwise([...missing]))
    const staying = told.filter((answer) => !gone.has(answer))
    return {
      told: told.length,
      kept: told.length - missing.size,
      gone: gone.size,
      lost: missing.size - gone.size,
      over: Math.max(0, list.length - seats),
      twice: repeated(staying.map(({ seat }) => seat)) + repeated(list.map(({ seat }) => seat)),
      refused: answers.filter(({ error }) => error?.code === "room_full" || error?.code === "closed").length,
      failed: answers.filter(({ error }) => error && error.code !== "room_full" && error.code !== "closed").length,
      versions: observer.seen(),
      gaps: observer.gaps(),
      took,
    }
  } finally {
    await clear()
  }
}

/**
 * Those of the players whom the server has told since that they have no seat any more: an operator sent
 * them away, or closed the table. They are not lost. Waits a while for that, because it may be on its way.
 */
async function toldOtherwise(answers) {
  const ended = ({ joined }) => joined.error?.code === "lost"
  for (const end = performance.now() + 3000; !answers.every(ended) && performance.now() < end;) {
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  return answers.filter(ended)
}

/** How many numbers are there a second time. */
const repeated = (numbers) => numbers.length - new Set(numbers).size

/**
 * Watches a room by a plain WebSocket, reads each frame as it comes, and counts versions that are missing
 * or come twice. It asks for nothing else meanwhile, because an answer stands for the events before it. A
 * snapshot, which a server sends after trouble with Redis, does so, too.
 */
async function observe(room, user) {
  let [version, seen, gaps] = [0, 0, 0]
  let reached = () => {}
  const link = await raw("/ws", { user }, (event) => {
    if (event.event === "changes" && event.from !== version) gaps++
    else if (event.event === "changes") seen += event.version - event.from
    else if (event.event !== "snapshot") return
    version = event.version
    reached()
  })
  const first = await link.ask("watch", room)
  if (first.error) throw new Error(first.error.message ?? first.error.code)
  version = first.version
  return {
    close: link.close,
    users: async () => {
      const { error, users } = await link.ask("users", room)
      if (error) throw new Error(error.message ?? error.code)
      return users ?? []
    },
    seen: () => seen,
    gaps: () => gaps,
    /** Resolves when the events have come up to a version. */
    reach: (wanted) => new Promise((resolve, reject) => {
      const late = setTimeout(() => reject(new Error("the events did not come in time")), 10_000)
      reached = () => {
        if (version < wanted) return
        clearTimeout(late)
        resolve()
      }
      reached()
    }),
  }
}

const gaps = [0, 5, 20, 100] // ms

/**
 * The same at a list without a lock: each player reads it, appends the name, and writes it. If that goes well, by luck, another
 * crowd comes that takes longer between reading and writing, as on a slower network. Returns the last one's result.
 */
export async function rival(seats, count, progress) {
  for (const [i, gap] of gaps.entries()) {
    const result = await race(seats, count, gap, (share) => progress((i + share) / gaps.length))
    if (result.over > 0 || (count <= seats && result.lost > 0) || i === gaps.length - 1) return result
  }
}

async function race(capacity, count, gap, progress) {
  const { own, users } = crowd(count)
  const list = `stampede-${own}`
  const players = []
  try {
    await each(users, async (user) => {
      players.push(await raw("/unguarded", { user, capacity, gap }))
      progress((0.6 * players.length) / count)
    })
    const start = performance.now()
    const answers = await Promise.all(players.map(async (player) => ({ user: player.user, ...(await player.ask("join", list)) })))
    const took = performance.now() - start
    const told = answers.filter((answer) => !answer.error)
    const after = await players[0].ask("users", list)
    if (after.error) throw new Error(after.error.message ?? after.error.code)
    const there = new Set((after.users ?? []).map((user) => user.user))
    return {
      gap,
      told: told.length,
      kept: told.filter(({ user }) => there.has(user)).length,
      lost: told.filter(({ user }) => !there.has(user)).length,
      over: Math.max(0, told.length - capacity),
      twice: repeated(told.map(({ seat }) => seat)),
      refused: answers.filter(({ error }) => error?.code === "room_full").length,
      failed: answers.filter(({ error }) => error && error.code !== "room_full").length,
      took,
    }
  } finally {
    await Promise.all(players.map((player) => player.close())) // a browser has so many WebSockets only
  }
}

/** A plain WebSocket: `ask` resolves to the reply, and `heard` gets each event. */
function raw(path, query, heard = () => {}) {
  const url = new URL(`${path}?${new URLSearchParams(query)}`, location.href)
  url.protocol = url.protocol.replace("http", "ws")
  const socket = new WebSocket(url, ["roomd.v1"])
  const waiting = new Map()
  let last = 0
  socket.onmessage = ({ data }) => {
    const frame = JSON.parse(data)
    if (frame.event) return heard(frame)
    waiting.get(frame.id)?.(frame)
    waiting.delete(frame.id)
  }
  return new Promise((resolve, reject) => {
    // A browser with 255 WebSockets, in all tabs together, lets the next one wait for ever.
    const late = setTimeout(() => {
      socket.close()
      reject(new Error("the browser or the server opens no more connections; is there a crowd in another tab?"))
    }, 10_000)
    socket.onclose = () => {
      clearTimeout(late)
      reject(new Error(`${path} cannot be reached`))
      for (const answer of waiting.values()) answer({ error: { code: "unavailable" } })
    }
    socket.onopen = () => {
      clearTimeout(late)
      resolve({
        user: query.user,
        close: () => new Promise((closed) => {
          if (socket.readyState === WebSocket.CLOSED) return closed()
          socket.addEventListener("close", closed)
          socket.close(1000)
        }),
        ask: (action, room) => new Promise((answer) => {
          if (socket.readyState !== WebSocket.OPEN) return answer({ error: { code: "unavailable" } })
          waiting.set(++last, answer)
          socket.send(JSON.stringify({ id: last, action, room }))
        }),
      })
    }
  })
}
