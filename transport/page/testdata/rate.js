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
await client.close()
process.stdout.write("ok\n")
