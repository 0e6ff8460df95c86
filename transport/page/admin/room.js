// One room: its members, settings, data and journal.

import { request, roomPath } from "./api.js"
import * as authority from "./authority.js"
import { $, attribute, make, named, pairs, patch, plural, text } from "./dom.js"
import { count, duration } from "./format.js"
import { Journal } from "./journal.js"
import { drawProblems } from "./problems.js"

const drawn = 200 // members

/** Room shows one room while it is open. `done` is called with a sentence about what was done. */
export class Room {
  #id
  #etag
  #room
  #ends = [] // of its timers: names, and when each fires by performance.now()
  #journal = new Journal()
  #done

  constructor(done) {
    this.#done = done
    $("room-ban").onclick = () => authority.ban(this.#id, done)
    $("room-unban").onclick = () => authority.unban(this.#id, done)
    $("room-close").onclick = () => authority.close(this.#id, this.#room, done)
    $("members-filter").oninput = () => this.#drawMembers()
  }

  open(id) {
    this.#id = id
    this.#etag = this.#room = undefined
    this.#journal.open(id)
    text($("room-title"), `Room ${id}`)
    $("members-filter").value = ""
    this.#draw()
    text($("room-none"), "Asking…")
  }

  close() {
    this.#id = undefined
  }

  /** Shows what of all problems is one of this room. */
  draw(problems) {
    drawProblems($("room-problems"), problems.filter(({ room }) => room === this.#id))
  }

  async refresh() {
    const id = this.#id
    try {
      const { value, etag, status } = await request("GET", roomPath(id), { etag: this.#etag })
      if (id !== this.#id) return
      this.#etag = etag
      if (status !== 304) {
        this.#room = value
        this.#ends = Object.entries(value.timers ?? {}).map(([name, left]) => [name, performance.now() + left])
      }
    } catch (problem) {
      if (problem.status !== 404) throw problem
      if (id !== this.#id) return
      this.#etag = this.#room = undefined
    }
    this.#draw()
    await this.#journal.refresh()
  }

  #draw() {
    const room = this.#room
    $("room-there").hidden = !room
    $("room-none").hidden = Boolean(room)
    text($("room-none"), "Nobody is in this room, and it has no settings of its own. Who is banned here stays banned.")
    $("room-mark").hidden = !room?.settings.closed
    text($("room-mark"), "closed")
    attribute($("room-close"), "disabled", room?.settings.closed ? "" : undefined)
    text($("room-count"), room ? room.settings.capacity ? `${count(room.count)} of ${plural(room.settings.capacity, "seat")} taken` : plural(room.count, "member") : "")
    if (!room) return
    this.#drawMembers()
    const { capacity, closed, keep, data, watch, host } = room.settings
    const timers = this.#ends.map(([name, end]) => `${name} fires in ${duration(Math.max(0, end - performance.now()))}`)
    const facts = [["Seats", capacity ? count(capacity) : "as many as there can be"], ["Who may come in", closed ? "nobody: it is closed" : "everybody who is not banned"],
      ["When it is empty", keep ? "it is kept" : "it is forgotten"], ["Who sets its data", data], ["Who may watch it", watch === "members" ? "members" : "everybody who is not banned"],
      ["Host", room.host === undefined ? host === "none" ? "the room has none" : "nobody" : room.host], ["Timers", timers.join(", ") || "none"],
      ["Version", `${count(room.version)}, in epoch ${room.epoch}`]]
    pairs($("facts"), facts)
    $("room-data").hidden = room.data === undefined
    text($("room-data"), room.data === undefined ? "" : JSON.stringify(room.data, null, 2))
  }

  #drawMembers() {
    const users = this.#room?.users ?? []
    const wanted = $("members-filter").value.normalize("NFC").toLocaleLowerCase()
    const found = wanted ? users.filter(({ user }) => user.normalize("NFC").toLocaleLowerCase().includes(wanted)) : users
    const ready = users.filter((user) => user.ready).length, away = users.filter((user) => user.away).length
    text($("members-count"), [plural(users.length, "member"), ready && `${count(ready)} ready`, away && `${count(away)} away`,
      found.length > drawn && `the first ${drawn} of ${count(found.length)} are shown`, wanted && `${count(found.length)} found`].filter(Boolean).join(", "))
    $("members").hidden = found.length === 0
    attribute($("members"), "data-plain", users.some(({ data }) => data !== undefined) ? undefined : "true")
    $("members-empty").hidden = users.length > 0
    $("members-find").hidden = users.length <= 20
    patch($("members-rows"), found.slice(0, drawn), {
      key: ({ user, seat }) => `${seat} ${user}`,
      create: ({ user }) => this.#createMember(user),
      update: updateMember,
    })
  }

  #createMember(user) {
    const kick = make("button", { type: "button", class: "small" }, "Kick…")
    kick.setAttribute("aria-label", `Kick ${user}…`)
    kick.onclick = () => authority.kick(this.#id, user, this.#done)
    return make("tr", {}, make("td", { class: "number" }), make("th", { scope: "row" }, named(user, { class: "name" })), make("td", {}, make("span", { class: "mark" })),
      make("td", { class: "own-data" }, make("code", { dir: "auto" })), make("td", { class: "act" }, kick))
  }
}

function updateMember(row, { seat, away, ready, data }) {
  const [place, , state, own] = row.children
  text(place, String(seat))
  row.dataset.state = away ? "draining" : ready ? "up" : ""
  text(state.firstChild, away ? (ready ? "away, was ready" : "away") : ready ? "ready" : "here")
  text(own.firstChild, data === undefined ? "" : JSON.stringify(data))
}
