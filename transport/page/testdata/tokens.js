// Users with tokens: node tokens.js URL SECRET WHERE. WHERE is page, where no header can be set, or elsewhere.
import assert from "node:assert/strict"
import { createHmac } from "node:crypto"
import WebSocket from "ws"
import { connect } from "../roomd.js"

const server = Date.now
Date.now = () => server() - 24 * 3_600_000 // the clock of this machine is a day wrong

const [url, secret, where] = process.argv.slice(2)

function sign(claims) {
  const part = (value) => Buffer.from(JSON.stringify(value)).toString("base64url")
  const text = part({ alg: "HS256", typ: "JWT" }) + "." + part(claims)
  return text + "." + createHmac("sha256", secret).update(text).digest("base64url")
}

const soon = (seconds) => Math.floor(server() / 1000) + seconds
const tokenFor = (user, seconds, more) => sign({ sub: user, exp: soon(seconds), ...more })
const backoff = { base: 10, cap: 100 }
const sockets = []
let open = true
class Counted extends WebSocket {
  constructor(address, protocols) {
    // A page has an origin, and other programs have none.
    super(open ? address : "ws://127.0.0.1:1/", protocols, globalThis.location && { origin: globalThis.location.origin })
    sockets.push(this)
  }
}

async function until(what) {
  for (let wait = 0; !what(); wait++) {
    assert(wait < 3000, `never true: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}

// A token is renewed in time, as often as it takes: the connection outlives it.
async function renews() {
  let given = 0
  const client = await connect(url, { backoff, WebSocket: Counted, token: () => (given++, tokenFor("ada", 5)) })
  assert.equal(client.user, "ada")
  const before = sockets.length
  await until(() => given >= 3)
  await client.join("renewed")
  assert.equal(sockets.length, before, "the connection has ended")
  await client.close()
}

// A token that never comes keeps no program alive.
async function waits() {
  const timers = () => process.getActiveResourcesInfo().filter((name) => name === "Timeout").length
  const before = timers()
  const abort = new AbortController()
  const connecting = connect(url, { WebSocket: Counted, token: () => new Promise(() => {}), timeout: 60_000, signal: abort.signal })
  abort.abort(new Error("enough"))
  await assert.rejects(connecting, /enough/)
  await until(() => timers() <= before)
}

// A kick that a user misses is not undone when it comes back; the user learns why.
async function misses() {
  const admin = await connect(url, { WebSocket, token: tokenFor("boss", 60, { role: "admin" }) })
  const bob = await connect(url, { backoff, WebSocket: Counted, token: () => tokenFor("bob", 60) })
  const room = await bob.join("strict")
  const changes = []
  const reading = (async () => {
    for await (const change of room) changes.push(change)
  })()
  open = false
  sockets.at(-1).terminate()
  await until(() => bob.state === "reconnecting")
  await admin.kick("strict", "bob", { text: "too loud" })
  open = true
  await reading
  const { type, reason, text } = changes.at(-1)
  assert.deepEqual([type, reason, text], ["lost", "kicked", "too loud"])
  assert.equal(room.error.code, "lost")
  assert.equal((await admin.users("strict")).users.length, 0)
  await assert.rejects(bob.kick("strict", "boss"), { code: "forbidden" })
  await bob.close()
  await admin.close()
}

// A token that is not valid is refused, with the reason, after one more attempt.
async function refused() {
  let given = 0
  await assert.rejects(connect(url, { backoff, WebSocket: Counted, token: () => (given++, "a.b.c") }), { code: "unauthorized" })
  assert.equal(given, 2)
  await assert.rejects(connect(url, { backoff, WebSocket: Counted, token: "a.b.c" }), { code: "unauthorized" })
  // A page without a token gets that far, and no farther.
  if (globalThis.location) {
    const client = await connect(url, { backoff, WebSocket: Counted })
    await assert.rejects(client.join("strict"), { code: "unauthorized" })
    await until(() => client.state === "lost")
    assert.equal(client.error.code, "unauthorized")
  } else {
    await assert.rejects(connect(url, { backoff, WebSocket: Counted }), { code: "unauthorized" })
  }
  const login = new Error("the login is down")
  await assert.rejects(connect(url, { WebSocket: Counted, token: () => Promise.reject(login) }), login)
}

if (where === "page") {
  globalThis.location = new URL(url.replace("ws:", "http:"))
  await renews() // by the first frame
} else {
  await renews()
  await waits()
  await misses()
}
await refused()
process.stdout.write("ok\n")
process.exit()
