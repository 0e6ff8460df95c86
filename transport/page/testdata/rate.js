// One user in many rooms of a node that takes few requests at once: node rate.js URL. It writes "ok".
import assert from "node:assert/strict"
import WebSocket from "ws"
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
process.stdout.write("ok\n")
