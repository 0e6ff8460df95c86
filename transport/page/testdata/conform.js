// roomd.js under test by the conformance kit: see README.md of transport/scenarios for the lines that it reads and writes.
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

// commandsOf returns what one client can be asked for.
function commandsOf() {
  const abort = new AbortController()
  let client
  const rooms = new Map() // by id, also those that have ended
  const iterations = new Map() // by name
  let lobby

  // at keeps a room, so that it can be asked for its end.
  function at({ room: id }) {
    if (client?.rooms.has(id)) rooms.set(id, client.rooms.get(id))
    if (!rooms.has(id)) throw new Error(`there is no room ${id}`)
    return rooms.get(id)
  }

  return {
    connect: async ({ options: { addresses, user, tokens, base, cap, idle, silence, wait } }) => {
      const token = tokens && (() => (tokens.length > 1 ? tokens.shift() : tokens[0]))
      const heartbeat = { idle, timeout: silence }
      client = await connect(addresses, { user, token, WebSocket, signal: abort.signal, backoff: { base, cap }, heartbeat, timeout: wait })
    },
    join: async ({ room, options }) => void rooms.set(room, await client.join(room, options)),
    watch: async ({ room, options }) => void rooms.set(room, await client.watch(room, options)),
    leave: (asked) => at(asked).leave(),
    unwatch: (asked) => at(asked).unwatch(),
    users: async ({ room }) => view(await client.users(room)),
    ready: async (asked) => void (await at(asked).ready(asked.value)),
    set: async (asked) => void (await at(asked).set(asked.data)),
    setMember: async (asked) => void (await at(asked).setMember(asked.data)),
    setPrivate: async (asked) => void (await at(asked).setPrivate(asked.data)),
    setPrivateOf: async ({ room, user, data }) => void (await client.setPrivateOf(room, user, data)),
    timer: async (asked) => void (await at(asked).timer(asked.name, asked.in, { then: asked.then })),
    swap: async ({ room, user, other }) => void (await client.swap(room, [user, other])),
    match: async ({ room, options: { labels, settings } }) => void (await client.match(labels, { party: room, settings })),
    shuffle: async ({ room }) => void (await client.shuffle(room)),
    txn: async ({ room, actions }) => void (await client.txn(room, actions)),
    update: async (asked) => void (await at(asked).update((old = 0) => old + asked.by)),
    say: async (asked) => void (await at(asked).say(asked.text)),
    sayTo: async (asked) => void (await at(asked).say(asked.text, { to: [asked.user] })),
    propose: async (asked) => void (await at(asked).propose(asked.data)),
    close: async () => {
      abort.abort(new Error("closed"))
      await client?.close()
    },
    view: (asked) => (client.rooms.has(asked.room) ? view(at(asked)) : "none"),
    iterate: (asked) => void iterations.set(asked.name, at(asked)[Symbol.asyncIterator]()),
    next: async ({ name }) => {
      const { done, value } = await iterations.get(name).next()
      if (done) return "end"
      const { ends, ...shown } = value // when a timer ends is by the clock of this process
      return value.type === "snapshot" ? { type: value.type, epoch: value.epoch, version: value.version } : shown
    },
    lobby: ({ query }) => void (lobby = client.lobby(query)),
    list: async () => {
      const { done, value } = await lobby.next()
      return done ? "end" : { rooms: value.rooms.map(({ room, count, capacity }) => `${room} ${count}/${capacity}`), stale: value.stale || undefined }
    },
    unlist: async () => void (await lobby.return()),
    state: () => [client.state, client.error?.code].filter(Boolean).join(" "),
    ended: (asked) => {
      const { error } = at(asked)
      return error ? [error.code, error.reason].filter(Boolean).join(" ") : "no"
    },
  }
}

async function answer(commands, { id, do: command, ...asked }) {
  try {
    return { id, result: await commands[command](asked) }
  } catch (error) {
    return { id, error: error.code ?? error.stack, message: error.message }
  }
}

const clients = new Map()
for await (const line of createInterface({ input: process.stdin })) {
  const { client, ...asked } = JSON.parse(line)
  if (!clients.has(client)) clients.set(client, commandsOf())
  answer(clients.get(client), asked).then((text) => process.stdout.write(JSON.stringify(text) + "\n"))
}
for (const { close } of clients.values()) await close() // also after a scenario that has failed
