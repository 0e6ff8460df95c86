// The clients under test of the scenarios. It reads commands from standard input, one a line:
// NUMBER, SUBJECT, COMMAND and arguments as a JSON array; and writes the number and the text of the answer as a
// JSON object. A subject begins with its first command, "new", which has the addresses. See the package
// scenarios for the commands.
import { createInterface } from "node:readline"
import WebSocket from "ws"
import { connect } from "../roomd.js"

let wall = Date.now()
Date.now = () => (wall -= 3_600_000) // nothing here may depend on a clock that somebody sets

const view = ({ epoch, version, users, settings, host, data, timers, seat }) => {
  const dealt = users.filter((user) => user.private !== undefined).map((user) => [user.user, user.private])
  const seated = users.map(({ private: hidden, ...shown }) => shown)
  const names = Object.keys(timers).sort()
  return { epoch, version, users: seated, settings, host, data, timers: names.length > 0 ? names : undefined, private: dealt.length > 0 ? Object.fromEntries(dealt) : undefined, seat }
}

// subject returns the commands of one client.
function subject(...addresses) {
  const abort = new AbortController()
  let client
  const rooms = new Map() // by id, also those that have ended
  const iterations = new Map() // by name
  let lobby

  // room keeps a room, so that it can be asked for its end.
  function room(id) {
    if (client?.rooms.has(id)) rooms.set(id, client.rooms.get(id))
    if (!rooms.has(id)) throw new Error(`there is no room ${id}`)
    return rooms.get(id)
  }

  return {
    connect: async (text) => {
      const { user, tokens, base, cap, idle, silence, wait } = JSON.parse(text)
      const token = tokens && (() => (tokens.length > 1 ? tokens.shift() : tokens[0]))
      const heartbeat = { idle, timeout: silence }
      client = await connect(addresses, { user, token, WebSocket, signal: abort.signal, backoff: { base, cap }, heartbeat, timeout: wait })
    },
    join: async (id, options) => void rooms.set(id, await client.join(id, options && JSON.parse(options))),
    watch: async (id, options) => void rooms.set(id, await client.watch(id, options && JSON.parse(options))),
    leave: (id) => room(id).leave(),
    unwatch: (id) => room(id).unwatch(),
    users: async (id) => view(await client.users(id)),
    ready: async (id, value) => void (await room(id).ready(value === "true")),
    set: async (id, data) => void (await room(id).set(JSON.parse(data))),
    setMember: async (id, data) => void (await room(id).setMember(JSON.parse(data))),
    setPrivate: async (id, data) => void (await room(id).setPrivate(JSON.parse(data))),
    setPrivateOf: async (id, user, data) => void (await client.setPrivateOf(id, user, JSON.parse(data))),
    timer: async (id, name, ms, then) => void (await room(id).timer(name, JSON.parse(ms), { then: then && JSON.parse(then) })),
    swap: async (id, ...users) => void (await client.swap(id, users)),
    shuffle: async (id) => void (await client.shuffle(id)),
    txn: async (id, actions) => void (await client.txn(id, JSON.parse(actions))),
    update: async (id, n) => void (await room(id).update((old = 0) => old + Number(n))),
    say: async (id, text) => void (await room(id).say(JSON.parse(text))),
    sayTo: async (id, to, text) => void (await room(id).say(JSON.parse(text), { to: [to] })),
    propose: async (id, move) => void (await room(id).propose(JSON.parse(move))),
    close: async () => {
      abort.abort(new Error("closed"))
      await client?.close()
    },
    view: (id) => (client.rooms.has(id) ? view(room(id)) : "none"),
    iterate: (id, name) => void iterations.set(name, room(id)[Symbol.asyncIterator]()),
    next: async (name) => {
      const { done, value } = await iterations.get(name).next()
      if (done) return "end"
      const { ends, ...shown } = value // when a timer ends is by the clock of this process
      return value.type === "snapshot" ? { type: value.type, epoch: value.epoch, version: value.version } : shown
    },
    lobby: (query) => void (lobby = client.lobby(JSON.parse(query))),
    list: async () => {
      const { done, value } = await lobby.next()
      return done ? "end" : { rooms: value.rooms.map(({ room, count, capacity }) => `${room} ${count}/${capacity}`), stale: value.stale || undefined }
    },
    unlist: async () => void (await lobby.return()),
    state: () => [client.state, client.error?.code].filter(Boolean).join(" "),
    ended: (id) => {
      const { error } = room(id)
      return error ? [error.code, error.reason].filter(Boolean).join(" ") : "no"
    },
  }
}

async function answer(commands, command, args) {
  try {
    const value = await commands[command](...args)
    if (value === undefined) return "ok"
    return typeof value === "string" ? value : JSON.stringify(value)
  } catch (error) {
    return `error ${error.code ?? error.stack}`
  }
}

const subjects = new Map()
for await (const line of createInterface({ input: process.stdin })) {
  const [number, name, command, ...args] = JSON.parse(line)
  if (command === "new") subjects.set(name, subject(...args))
  const done = command === "new" ? Promise.resolve("ok") : answer(subjects.get(name), command, args)
  done.then((text) => process.stdout.write(JSON.stringify({ number, text }) + "\n"))
}
for (const { close } of subjects.values()) await close() // also after a scenario that has failed
