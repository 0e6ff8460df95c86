// What programs do with roomd.d.ts; the compiler reads it, nobody runs it.
import WebSocket from "ws"
import { connect, RoomdError } from "../roomd.js"
import type { Change, Client, ClientCode, LobbyRoom, Room, ServerCode, State, User } from "../roomd.js"

interface Table {
  pot: number
}
interface Hand {
  cards: string[]
}

const client: Client = await connect(["wss://a.example/ws", "wss://b.example/ws"], {
  token: async () => "eyJ…",
  WebSocket,
  timeout: 5_000,
  backoff: { cap: 1_000 },
  heartbeat: { idle: 5_000 },
  signal: AbortSignal.timeout(60_000),
})
client.addEventListener("state", () => {
  const state: State = client.state
  if (state === "lost") console.log(client.error?.code)
})

const room: Room<Table, Hand> = await client.join<Table, Hand>("table-7", { seat: 2 })
const seat: number | undefined = room.seat
const hands: (string[] | undefined)[] = room.users.map((user: User<Hand>) => user.data?.cards)
console.log(seat, hands, room.settings.capacity, client.rooms.get("table-7")?.version)

// Codes are literals, so an editor offers them, and a typing error is one of types.
const retried: ServerCode[] = ["busy", "unavailable", "rate_limited"]
// @ts-expect-error: there is no such code
const misspelt: ServerCode | ClientCode = "room-full"
// @ts-expect-error: there is no such event
client.addEventListener("states", () => {})
const outcome = (code: string) => (retried.includes(code as ServerCode) ? "again" : misspelt)

function show(change: Change<Table, Hand>): string {
  switch (change.type) {
    case "snapshot":
      return `${change.users.length} users, ${change.data?.pot}`
    case "leave":
      return `${change.user}: ${change.reason}`
    case "data":
      return String(change.data?.pot)
    case "message":
      return change.text ?? ""
    default:
      return `${change.type} at ${change.version}`
  }
}
for await (const change of room) {
  console.log(show(change))
  if (change.type === "lost" && change.to) await client.join(change.to)
}

for await (const { rooms, stale } of client.lobby({ labels: { mode: "ranked" }, free: 1, sort: "members" })) {
  const best: LobbyRoom | undefined = rooms[0]
  console.log(best?.room, best?.labels?.mode, stale)
  break
}
// @ts-expect-error: there is no such order
client.lobby({ sort: "name" })

const pot = await room.update((old) => ({ pot: (old?.pot ?? 0) + 1 }))
console.log(pot?.pot)
await room.set({ pot: 1 }, { expect: room.version })
await room.set(null, { expect: { epoch: room.epoch, version: 3 } })
await room.setMember({ cards: [] })
await room.say({ data: [1, 2] }, { to: ["bob"] })
try {
  await client.configure("table-7", { capacity: 4, data: "admins" })
} catch (error) {
  if (error instanceof RoomdError && error.code === "conflict") console.log(error.version, error.data)
  if (error instanceof RoomdError) console.log(outcome(error.code))
}
await client.close()

// @ts-expect-error: the copy of a room cannot be altered
room.users.push({ user: "eve", seat: 9 })
// @ts-expect-error: the data of this room has a pot
await room.set({ pott: 1 })
// @ts-expect-error: rooms come from join and watch
new Room()
