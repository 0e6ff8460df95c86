// One table: who sits where, and what the user can do there.

import { $, announce, attribute, make, once, patch, plural, quoted, show, text } from "./dom.js"
import { around, hueOf, initial, places } from "./seats.js"
import { Talk } from "./talk.js"
import { explain, explainLost } from "./words.js"

const narrow = matchMedia("(max-width: 40rem)")

/** Shows one room of a client. `left` is called with the id when the user has stood up or lost the seat, `sat` when they sit. */
export class Table {
  #client
  #room
  #talk
  #draw = once(() => this.#render())
  #hooks
  #busy = false

  constructor(client, room, hooks) {
    this.#client = client
    this.#room = room
    this.#hooks = hooks
    this.#talk = new Talk()
    $("table").hidden = false
    $("sit").onclick = () => this.sit()
    $("leave").onclick = () => this.#leave()
    $("ready").onclick = () => this.#try(() => room.ready(!room.user(client.user)?.ready))
    $("say-form").onsubmit = (event) => this.#say(event)
    narrow.addEventListener("change", this.#draw)
    client.addEventListener("state", this.#draw)
    this.problem("")
    this.#render()
    this.#follow()
  }

  get room() {
    return this.#room
  }

  /** Ends the view. Who sits goes on sitting; who only watches does not watch any more. */
  close() {
    narrow.removeEventListener("change", this.#draw)
    this.#client.removeEventListener("state", this.#draw)
    $("table").hidden = true
    const room = this.#room
    this.#room = undefined
    if (!room.member && room.watching && this.#client.state !== "lost") room.unwatch().catch(() => {})
  }

  /** Says what did not work, in place of what was said before. */
  problem(sentence) {
    text($("table-problem"), sentence)
  }

  async #follow() {
    const room = this.#room
    for await (const change of room) {
      if (this.#room !== room) return
      this.#talk.take(change)
      if (change.type === "snapshot" && room.member) this.#hooks.sat(room.id, room.seat) // who was moved here, too
      if (change.type === "lost") {
        this.problem(explainLost(change))
        this.#hooks.left(room.id, change.to)
      }
      this.#draw()
    }
    if (this.#room !== room || this.#client.state === "lost") return
    if (room.error && room.error.code !== "client_closed") this.problem(explain(room.error))
  }

  /** Takes a seat: that one, or any. */
  async sit(seat) {
    const room = this.#room
    if (room.member) return this.problem(`You sit at seat ${room.seat}. Stand up first to take another one.`)
    const taken = seat !== undefined && room.users.find((user) => user.seat === seat && user.user !== this.#client.user) // or this user sits there in another tab
    if (taken) return this.problem(`Seat ${seat} is taken by ${quoted(taken.user)}. Choose another one.`)
    await this.#try(async () => {
      await this.#client.join(room.id, { seat })
      this.#hooks.sat(room.id, room.seat)
      this.#talk.note(this.#client.user, `sat down at seat ${room.seat}`)
      announce(`You sit at seat ${room.seat}.`)
    }, seat)
  }

  async #leave() {
    const room = this.#room
    await this.#try(async () => {
      this.#hooks.left(room.id)
      if (!room.watching) await this.#client.watch(room.id) // so that the room goes on
      await room.leave()
      this.#talk.note(this.#client.user, "stood up")
      announce("You stood up, and watch the table.")
    })
  }

  async #say(event) {
    event.preventDefault()
    const field = $("say-text")
    const words = field.value.trim()
    if (!words) return
    if (await this.#try(() => this.#room.say(words))) field.value = ""
  }

  /** Does one thing at a time, and explains what goes wrong. */
  async #try(work, seat) {
    if (this.#busy) {
      this.problem("What you did before is still on its way. Then do this again.")
      return false
    }
    this.#busy = true
    this.problem("")
    try {
      await work()
      return true
    } catch (error) {
      this.problem(explain(error, seat))
      return false
    } finally {
      this.#busy = false
      this.#draw()
    }
  }

  #render() {
    const room = this.#room
    if (!room) return
    const capacity = room.settings.capacity ?? 0
    const taken = room.users.length
    text($("table-title"), `Table ${room.id}`)
    text($("table-count"), capacity > 0 ? `${taken} of ${plural(capacity, "seat")} taken` : plural(taken, "player"))
    this.#renderSeats(room, capacity)
    this.#renderActions(room, capacity)
    this.#renderFacts(room, capacity)
    this.#talk.render()
  }

  #renderSeats(room, capacity) {
    const { drawn, hidden } = places(room.users, capacity, room.seat, narrow.matches ? 24 : 40)
    const shape = narrow.matches ? { aspect: 0.8, power: 2.8, rx: 0.4, ry: 0.43 } : { aspect: 1.6, power: 2.2, rx: 0.415, ry: 0.4 }
    const points = around(drawn.length, shape)
    $("felt").dataset.size = drawn.length <= 10 ? "few" : drawn.length <= 20 ? "some" : "many"
    patch($("seats"), drawn.map((place, i) => ({ ...place, ...points[i] })), {
      key: (place) => place.seat,
      create: (place) => this.#makeSeat(place.seat),
      update: (item, place) => this.#updateSeat(item, place, room),
    })
    show($("seats-more"), hidden > 0)
    text($("seats-more"), hidden > 0 ? `and ${plural(hidden, "more player")}, for whom there is no place in the picture` : "")
  }

  #makeSeat(seat) {
    const face = make("span", { class: "face", "aria-hidden": "true" }, make("span", { class: "initial" }))
    const button = make("button", { class: "seat", type: "button", "data-seat": String(seat) }, face,
      make("span", { class: "name" }, make("bdi")), make("span", { class: "note" }))
    return make("li", {}, button)
  }

  #updateSeat(item, { seat, user, x, y }, room) {
    const button = item.firstChild
    const [face, name, note] = button.children
    const own = user !== undefined && seat === room.seat
    button.onclick = () => this.sit(seat) // the button may be left of another table
    item.style.setProperty("--x", x.toFixed(4))
    item.style.setProperty("--y", y.toFixed(4))
    attribute(button, "data-kind", user ? "taken" : "free")
    attribute(button, "data-own", own)
    attribute(button, "data-away", Boolean(user?.away))
    attribute(button, "data-ready", Boolean(user?.ready))
    attribute(button, "aria-disabled", (user && user.user !== this.#client.user) || room.member ? "true" : undefined)
    attribute(face.firstChild, "data-letter", user ? initial(user.user) : "+") // the style shows it: it is not part of the label
    text(name.firstChild, user ? user.user : `Seat ${seat}`)
    text(note, own ? (user.away ? "you, away" : "you") : user?.away ? "away" : "")
    if (user) face.style.setProperty("--hue", hueOf(user.user))
    const state = user && [own && "you", user.ready && "ready", user.away && "away"].filter(Boolean).join(", ")
    attribute(button, "aria-label", user ? `Seat ${seat}: ${user.user}${state ? `, ${state}` : ""}` : `Seat ${seat}: free`)
    attribute(face, "title", user && user.user) // for the mouse, where the name is cut off
  }

  #renderActions(room, capacity) {
    const ready = room.user(this.#client.user)?.ready
    const full = capacity > 0 && room.users.length >= capacity && !room.user(this.#client.user)
    if (room.member) show($("ready"), true)
    show($("sit"), !room.member, $("ready"))
    // Not disabled, which would lose the focus: who presses it is told why there is no seat.
    attribute($("sit"), "aria-disabled", full || room.settings.closed || this.#client.state === "lost" ? "true" : undefined)
    show($("leave"), room.member, $("sit"))
    show($("ready"), room.member, $("sit"))
    attribute($("ready"), "aria-pressed", String(Boolean(ready)))
    text($("ready"), ready ? "Ready" : "I am ready")
    $("say-text").disabled = $("say-go").disabled = !room.member
    attribute($("say-text"), "placeholder", room.member ? "Say something" : "Sit down to talk")
    text($("centre-text"), this.#client.state === "connected" ? mood(room, capacity, full) : pause(room, this.#client.state))
  }

  #renderFacts(room, capacity) {
    const facts = {
      room: room.id,
      version: String(room.version),
      epoch: room.epoch || "none yet",
      "your seat": room.seat === undefined ? "none" : room.seat,
      capacity: capacity > 0 ? String(capacity) : "no limit",
      server: this.#client.address ?? location.host,
      release: this.#hooks.version || "unknown",
      reconnects: String(this.#hooks.reconnects()),
    }
    patch($("facts-list"), Object.entries(facts), {
      key: ([name]) => name,
      create: ([name]) => make("div", { class: "fact" }, make("dt", {}, name), make("dd")),
      update: (item, [, value]) => text(item.lastChild, value),
    })
  }
}

/** What the middle of the table says. */
function mood(room, capacity, full) {
  const count = room.users.length
  const ready = room.users.filter((user) => user.ready).length
  if (!room.member) {
    if (room.settings.closed) return "This table is closed."
    if (full) return "The table is full. You are watching."
    return count === 0 ? "Nobody sits here yet." : "You are watching."
  }
  if (count === 1) return "You are the first one here."
  return ready === count ? "Everybody is ready." : `${ready} of ${count} are ready.`
}

function pause(room, state) {
  if (state === "lost") return "Not connected."
  if (state === "degraded") return "The server cannot reach Redis. The table stands still until it can."
  return room.member ? "Reconnecting. Your seat is kept for a while." : "Reconnecting…"
}
