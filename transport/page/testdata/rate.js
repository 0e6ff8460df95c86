// One user in many rooms of a node that takes few requests at once: node rate.js URL. It writes "ok".
import assert from "node:assert/strict"
import { once } from "node:events"
import WebSocket, { WebSocketServer } from "ws"
import { connect } from "../roomd.js"

const sockets = []
class Breakable extends WebSocket {
  constructor(...args) {
    super(...args)
    sockets.push(this)
  }
}
const client = await connect(process.argv[2], { user: "ada", WebSocket: Breakable, backoff: { base: 10, cap: 200 } })
const rooms = await Promise.all(Array.from({ length: 60 }, (_, n) => client.join(String(n))))
sockets.at(-1).terminate()
await new Promise((resolve) => client.addEventListener("state", resolve, { once: true }))
await Promise.all(rooms.map((room) => room.say("still here")))
assert.equal(sockets.length, 2)
for (const room of rooms) assert(room.member && room.error === undefined && room.version >= 3, room.id)

// As many at once as no node would forgive.
await Promise.all(Array.from({ length: 500 }, () => client.users("0")))
assert.equal(sockets.length, 2)

// What is sent later is what it was when it was asked for.
const [room] = rooms
const score = { n: 0 }
const heard = []
const reading = (async () => {
  for await (const { type, data } of room) if (type === "data" && (data === "end" || !heard.push(data.n))) return
})()
await Promise.all(Array.from({ length: 60 }, () => (score.n++, room.set(score))))
await room.set("end")
await reading
assert.deepEqual(heard.sort((a, b) => a - b), Array.from({ length: 60 }, (_, n) => n + 1))

// What JSON does not have is refused here, and harms nothing. An end that is no number does not cancel the timer.
score.itself = score
await assert.rejects(room.set(score), { name: "RoomdError", code: "bad_request" })
for (const ms of [NaN, Infinity]) {
  await assert.rejects(room.timer("turn", ms), { name: "RoomdError", code: "bad_request" })
  await assert.rejects(client.txn("0", [{ action: "timer", name: "turn", in: ms }]), { name: "RoomdError", code: "bad_request" })
}
await client.close()

// What is refused is sent again in the order in which it was asked for, also where it is refused once more, or the node restarts.
const server = new WebSocketServer({ host: "127.0.0.1", port: 0 })
await once(server, "listening")
const done = []
let refusals = 4
let restart = false
server.on("connection", (socket) => {
  socket.on("message", (text) => {
    const { id, action, room, data } = JSON.parse(text)
    const answer = (fields) => socket.send(JSON.stringify({ id, room, epoch: "e", version: 1, count: 1, ...fields }))
    if (action !== "set") return answer({ seat: 0, users: [{ user: "ada", seat: 0 }] })
    if (refusals-- > 0) return answer({ error: { code: "rate_limited", message: "too fast", retry: true } })
    if (!restart) return answer({}, done.push(data))
    if (data !== 6) return
    restart = false
    socket.close(1012)
  })
})
for (const numbers of [[1, 2, 3], [4, 5, 6]]) {
  const impatient = await connect(`ws://127.0.0.1:${server.address().port}/ws`, { user: "ada", WebSocket, backoff: { base: 10, cap: 10 } })
  const table = await impatient.join("0")
  await Promise.all(numbers.map((n) => table.set(n)))
  await impatient.close()
  ;[refusals, restart] = [1, true]
}
assert.deepEqual(done, [1, 2, 3, 4, 5, 6])
server.close()
process.stdout.write("ok\n")
