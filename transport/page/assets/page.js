// The page: who plays, which table is open, and how the connection is.

import { $, announce, attribute, show, store, text } from "./dom.js"
import { Lobby } from "./lobby.js"
import { ask, claimsOf, remember, remembered } from "./login.js"
import { connect } from "./roomd.js"
import { StampedePanel } from "./stampede.js"
import { Table } from "./table.js"
import { explain, explainEnd, explainLost } from "./words.js"

const facts = {}
let ahead // what the server's clock says at performance.now() 0: this machine's may be wrong

/** Asks the server what it is. It may be another one since: started again, with a key or without. */
async function ascertain() {
  try {
    const answer = await fetch("/page.json", { signal: AbortSignal.timeout(5000) })
    ahead = Date.parse(answer.headers.get("Date")) - performance.now()
    Object.assign(facts, await answer.json())
  } catch {
    // It is away: what is known counts on.
  }
}

await ascertain()

let identity // {user} or {token}
let client // undefined until connected for the first time
let table // the one that is shown
let attempt // an AbortController while connecting
let reconnects = 0

const lobby = new Lobby({
  follow: () => client.lobby(),
  seated: (id) => Boolean(client?.rooms.get(id)?.member),
})
const stampede = new StampedePanel(facts)

// Tables where this tab has a seat: after a reload it takes them again.
const seated = {
  all: () => store.get("roomd.seats") ?? {},
  add: (id, seat) => store.set("roomd.seats", { ...seated.all(), [id]: seat }),
  remove(id) {
    const { [id]: _, ...others } = seated.all()
    store.set("roomd.seats", others)
  },
}

/** Connects as the user of this tab, after asking who that is. */
async function enter(problem) {
  notice("")
  identity = problem === undefined ? remembered() : null
  if (!identity || Boolean(identity.token) !== Boolean(facts.auth)) {
    hideViews()
    state("idle")
    identity = await ask(facts.auth, problem)
    remember(identity)
  }
  showWho()
  state("connecting")
  attempt = new AbortController()
  try {
    client = await connect("/ws", { ...(facts.auth ? { token: freshToken } : { user: identity.user }), signal: attempt.signal, onUnreachable: () => notice("The server does not answer. This page goes on trying.") })
    notice("")
  } catch (error) {
    if (attempt.signal.aborted) return enter("")
    const { auth } = facts
    await ascertain()
    if (facts.auth !== auth) return forget("")
    if (error.code === "unauthorized") return forget(explainEnd(error).text)
    if (error.code === "bad_request" && !facts.auth) return forget(error.message)
    state("lost")
    return notice(explain(error), "Try again", () => enter())
  }
  const present = client
  client.addEventListener("state", () => present === client && follow()) // not of one that was signed out
  follow()
  const missed = await sitAgain()
  await route()
  if (missed.has(table?.room.id)) table.problem(missed.get(table.room.id))
}

/** Forgets who played, and asks again. */
function forget(problem) {
  remember(null)
  return enter(problem)
}

/** The token for a connection. If it is about to expire while the client is connected, a newer one is asked for. */
async function freshToken() {
  const claims = claimsOf(identity.token)
  const left = claims?.exp * 1000 - (ahead + performance.now())
  const lasts = (claims?.exp - (claims?.iat ?? NaN)) * 1000 || Infinity
  const soon = (client?.state === "connected" || client?.state === "degraded") && left < Math.max(60_000, Math.min(0.25 * lasts, 300_000))
  if (soon) {
    notice("Your token expires soon. Show a newer one to go on playing.")
    identity = await ask(true)
    remember(identity)
    notice("")
  }
  return identity.token
}

/** Shows how the connection is, whenever that changes. */
async function follow() {
  const was = $("state").dataset.state
  state(client.state)
  if (client.state === "reconnecting") announce("The connection is lost. Reconnecting.")
  if ((client.state === "connected" || client.state === "degraded") && was === "reconnecting") {
    reconnects++
    announce("Connected again.")
  }
  if (client.state === "degraded") announce("The server cannot reach Redis.")
  if (client.state === "connected" && was === "degraded") announce("The server can reach Redis again.")
  if (client.state !== "lost" || client.error?.code === "client_closed") return
  const { text: why, action } = explainEnd(client.error)
  const { auth } = facts
  await ascertain()
  if (client.error.code === "unauthorized" || facts.auth !== auth) {
    closeTable()
    return forget(facts.auth ? why : "")
  }
  notice(why, action, () => {
    closeTable()
    enter()
  })
}

const states = { idle: "not connected", connecting: "connecting…", connected: "connected", degraded: "connected, but the server cannot reach Redis", reconnecting: "reconnecting…", lost: "not connected" }

function state(name) {
  attribute($("state"), "data-state", name)
  text($("state-text"), states[name])
}

function notice(sentence, action, work) {
  text($("notice-text"), sentence)
  show($("notice"), Boolean(sentence))
  show($("notice-action"), Boolean(action))
  text($("notice-action"), action ?? "")
  $("notice-action").onclick = work ?? null
}

function showWho() {
  const name = identity.user ?? claimsOf(identity.token)?.sub ?? ""
  text($("who-name"), name)
  attribute($("who-name"), "title", name)
  show($("who"), true)
}

/** Does what the server cannot do now once more, as long as somebody waits for it, and says so meanwhile. */
async function patiently(work, waits = () => true) {
  const present = client
  let told = false
  try {
    for (;;) {
      try {
        return await work()
      } catch (error) {
        if (!error.retry || !waits() || present !== client || client.state === "lost") throw error
        notice("The server cannot do what this page asks for. Trying again…")
        told = true
      }
      await new Promise((resolve) => setTimeout(resolve, 1000))
    }
  } finally {
    if (told && present === client && client.state !== "lost") notice("")
  }
}

/** Takes the seats again that this tab had, as far as the server still keeps them. Returns why not, by table. */
async function sitAgain() {
  const missed = new Map()
  for (const [id, seat] of Object.entries(seated.all())) {
    try {
      const { users } = await patiently(() => client.users(id))
      if (users.some((user) => user.user === client.user)) await patiently(() => client.join(id, { seat }))
      else missed.set(id, explainLost({ reason: "timeout" }))
    } catch (error) {
      missed.set(id, explain(error, seat))
    }
  }
  for (const id of missed.keys()) seated.remove(id)
  return missed
}

const wanted = () => new URLSearchParams(location.hash.slice(1)).get("table")

/** Shows what the address asks for: a table, or all of them. */
async function route() {
  if (!client || client.state === "lost") return
  const id = wanted()
  closeTable()
  if (!id) {
    document.title = "roomd"
    return lobby.open()
  }
  lobby.close()
  document.title = `Table ${id} · roomd`
  try {
    const room = await patiently(() => client.watch(id), () => wanted() === id)
    if (wanted() !== id || table) return
    table = new Table(client, room, {
      version: facts.version,
      reconnects: () => reconnects,
      sat: seated.add,
      left(id, to) {
        seated.remove(id)
        if (to) followTo(to)
      },
    })
    stampede.open()
  } catch (error) {
    if (wanted() === id && error.code !== "client_closed") {
      notice(explain(error), "All tables", () => {
        notice("")
        location.hash = ""
      })
    }
  }
}

/** Goes to the table to which an operator has moved the user, who sits there already. */
async function followTo(id) {
  try {
    seated.add(id, (await client.join(id)).seat)
  } catch {
    // Moved on, or thrown out meanwhile: the table shows it.
  }
  location.hash = `table=${encodeURIComponent(id)}`
}

function closeTable() {
  table?.close()
  table = undefined
}

function hideViews() {
  closeTable()
  lobby.close()
}

addEventListener("hashchange", () => {
  if (client?.state === "lost") return // its notice has the way on
  notice("")
  route()
})

$("sign-out").onclick = async () => {
  const before = client
  client = undefined
  store.set("roomd.seats", null)
  hideViews()
  show($("who"), false)
  remember(null)
  if (before) {
    before.close()
    enter("")
  } else {
    attempt?.abort()
  }
}

enter()
