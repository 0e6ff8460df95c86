// Two users of two nodes, whose connections break, and whose node starts again: node nodes.js URL URL.
// It writes "restart" when the first node shall start again, and reads a line when that is done.
import assert from "node:assert/strict"
import { createInterface } from "node:readline"
import WebSocket from "ws"
import { connect, RoomdError } from "../roomd.js"

const urls = process.argv.slice(2)
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]()
const options = { backoff: { base: 10, cap: 200 } }

// player connects a user whose sockets can be broken, and who writes down what the changes of a room say.
async function player(user, addresses) {
  const sockets = []
  class Breakable extends WebSocket {
    constructor(...args) {
      super(...args)
      sockets.push(this)
    }
  }
  const client = await connect(addresses, { ...options, user, WebSocket: Breakable })
  const room = await client.join("table")
  const types = []
  const roster = new Map() // by what the changes say alone
  const reading = (async () => {
    for await (const change of room) {
      types.push(change.type)
      if (change.type === "snapshot") {
        roster.clear()
        for (const { user, seat } of change.users) roster.set(user, seat)
      }
      if (change.type === "join") roster.set(change.user, change.seat)
      if (change.type === "leave") roster.delete(change.user)
    }
  })()
  return { client, room, types, roster, reading, sockets, cut: () => sockets.at(-1).terminate() }
}

// until waits for something to be true of the rooms, which it looks at behind each change.
async function until(what, ...players) {
  for (let wait = 0; !what(); wait++) {
    assert(wait < 3000, `never true: ${what}; ${JSON.stringify(players.map(({ types, room }) => [types, room.version, room.users]))}`)
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}

const ada = await player("ada", urls)
const bob = await player("bob", [urls[1]])
const equal = () => ada.room.version === bob.room.version && ada.room.epoch === bob.room.epoch && ada.client.state === "connected"
const sameRoster = async () => {
  await until(equal, ada, bob)
  assert.deepEqual(ada.room.users, bob.room.users)
  assert.deepEqual(ada.room.users.map(({ user, seat }) => [user, seat]), [["ada", 0], ["bob", 1]])
  await until(() => ada.roster.size === 2 && bob.roster.size === 2, ada, bob)
}
await sameRoster()

// Both count in the room's data at once, and no count is lost.
const count = async ({ room }) => {
  for (let n = 0; n < 10; n++) await room.update((old = 0) => old + 1)
}
await Promise.all([count(ada), count(bob)])
await until(equal, ada, bob)
assert.equal(ada.room.data, 20)
assert.equal(bob.room.data, 20)

// What is no address is refused at once, with words that help.
for (const [url, words] of Object.entries({
  "localhost:8080/ws": "write ws://localhost:8080/ws", "127.0.0.1:8080": "write ws://127.0.0.1:8080", "game.example/ws": "no scheme",
  "": "no scheme", "/ws": "there is no page here", "ftp://game.example": "ftp", "ws://": "is no URL", "ws://a:b@game.example": "password",
})) {
  await assert.rejects(connect(url, { user: "ada", WebSocket }), (error) => error instanceof RoomdError && error.code === "bad_request" && error.message.includes(words), url)
}
await assert.rejects(connect([], { user: "ada", WebSocket }), { name: "RoomdError", code: "bad_request" })

// Who waits for a server that is not there is told so, once.
for (const hook of [true, false]) {
  const told = []
  const abort = new AbortController()
  let attempts = 0
  class Nowhere extends WebSocket {
    constructor(...args) {
      super(...args)
      if (++attempts > 6) abort.abort(new Error("enough"))
    }
  }
  const { warn } = console
  console.warn = (line) => told.push(line)
  const onUnreachable = hook ? (error) => told.push(`roomd.js: ${error.message} (${attempts})`) : undefined
  await assert.rejects(connect("ws://127.0.0.1:1/ws", { ...options, user: "ada", WebSocket: Nowhere, signal: abort.signal, onUnreachable }), /enough/)
  console.warn = warn
  const line = "roomd.js: 3 attempts to connect have failed, the last to ws://127.0.0.1:1/ws, and more follow: the connection could not be made"
  assert.deepEqual(told, [hook ? `${line} (3)` : line])
}

// What is no option of a call is refused, and not passed over.
for (const [name, call] of Object.entries({
  capacity: () => ada.client.match({ mode: "x" }, { capacity: 4 }), seats: () => ada.client.join("table", { seats: 1 }), seat: () => ada.client.watch("table", { seat: 1 }),
  label: () => ada.client.lobby({ label: "x" }).next(), abort: () => ada.client.lobby({}, { abort: 1 }).next(), expects: () => ada.room.set("lost", { expects: 1 }),
  version: () => ada.room.setMember("lost", { version: 1 }), epoch: () => ada.room.setPrivate("lost", { epoch: "e" }), data: () => ada.room.timer("t", 1, { data: "lost" }),
  users: () => ada.room.say("lost", { users: ["bob"] }), reason: () => ada.client.kick("table", "bob", { reason: "lost" }), expected: () => ada.client.txn("table", [], { expected: 1 }),
  capacities: () => ada.client.configure("table", {}, { capacities: 1 }), to: () => ada.client.setPrivateOf("table", "bob", "lost", { to: 1 }),
  tokens: () => connect(urls, { tokens: [] }), most: () => connect(urls, { backoff: { most: 1 } }), interval: () => connect(urls, { heartbeat: { interval: 1 } }),
})) {
  await assert.rejects(async () => call(), (error) => error instanceof RoomdError && error.code === "bad_request" && error.message.endsWith(`there is no option ${name}`), name)
}

// What is no version makes no request unconditional.
for (const expect of [null, "3", {}, { version: "3" }, { epoch: ada.room.epoch }, NaN]) {
  await assert.rejects(ada.room.set("lost", { expect }), { code: "bad_request" })
  await assert.rejects(ada.room.setMember("lost", { expect }), { code: "bad_request" })
}
assert.equal(ada.room.data, 20)

// A connection breaks; the seat stays, and the other one sees it.
ada.cut()
await until(() => bob.types.includes("back"), ada, bob)
assert(bob.types.indexOf("away") < bob.types.indexOf("back"))
await sameRoster()
assert.equal(ada.sockets.length, 2)

// What is asked for meanwhile is done afterwards.
ada.cut()
const ready = ada.room.ready(true)
await ready
assert.equal(ada.room.user("ada").ready, true)
await sameRoster()

// Ada follows the lobby meanwhile.
let tables = []
const following = (async () => {
  for await (const { rooms, stale } of ada.client.lobby({ prefix: "t" })) if (!stale) tables = rooms.map(({ room, count }) => `${room} ${count}`)
})()
await until(() => tables.join() === "table 2", ada)

// A node starts again. Its users are still where they were.
process.stdout.write("restart\n")
await lines.next()
await until(() => ada.client.state === "connected", ada)
await ada.room.say("here I am")
await until(() => bob.types.includes("message"), ada, bob)
await sameRoster()
assert.equal(ada.room.seat, 0)

await bob.client.join("table-2")
await until(() => tables.join() === "table 2,table-2 1", ada)

// Who closes has left.
const ended = assert.rejects(following, { code: "client_closed" })
await ada.client.close()
await ended
await ada.reading
await until(() => bob.types.includes("leave"), bob)
assert.deepEqual(bob.room.users.map(({ user }) => user), ["bob"])
await bob.client.close()
process.stdout.write("ok\n")
process.exit()
