// The list of tables, as it is now.

import { $, attribute, make, patch, plural, text } from "./dom.js"

const drawn = 200 // tables
const old = "The list is not up to date: the server does not answer."

/**
 * Shows the lobby while it is open. `follow` begins to follow the list of tables; `seated` says whether the user sits at a table.
 */
export class Lobby {
  #follow
  #seated
  #open = false
  #lists // that are being followed

  constructor({ follow, seated }) {
    this.#follow = follow
    this.#seated = seated
    $("open-form").onsubmit = (event) => {
      event.preventDefault()
      openTable($("open-id").value.trim())
    }
    document.addEventListener("visibilitychange", () => this.#update())
  }

  open() {
    this.#open = true
    $("lobby").hidden = false
    $("open-error").textContent = ""
    this.#update()
  }

  close() {
    this.#open = false
    $("lobby").hidden = true
    this.#update()
  }

  /** Follows the tables only while they can be seen: a browser has few connections to a server for all its tabs. */
  #update() {
    if (this.#open && !document.hidden) {
      if (!this.#lists) this.#read()
      return
    }
    this.#lists?.return()
    this.#lists = undefined
  }

  async #read() {
    const lists = (this.#lists = this.#follow())
    const present = () => lists === this.#lists
    try {
      for await (const { rooms, stale } of lists) if (present()) this.#draw(rooms, stale)
    } catch {
      if (present()) text($("lobby-count"), old) // the page says otherwise why, if the client has ended
    }
    if (present()) this.#lists = undefined
  }

  #draw(rooms, stale) {
    text($("lobby-count"), stale ? old : rooms.length ? plural(rooms.length, "table") : "")
    $("tables-empty").hidden = rooms.length > 0
    $("tables-more").hidden = rooms.length <= drawn
    text($("tables-more"), "There are more tables. Open one by its name.")
    patch($("tables"), rooms.slice(0, drawn), {
      key: (room) => room.room,
      create: (room) => {
        const link = make("a", { href: `#table=${encodeURIComponent(room.room)}` }, make("span", { class: "name" }, room.room), " ",
          make("span", { class: "mark" }), " ", make("span", { class: "count" }), make("span", { class: "fill", "aria-hidden": "true" }))
        return make("li", {}, link)
      },
      update: (item, room) => {
        const [, mark, count, fill] = item.firstChild.children
        const sits = this.#seated(room.room)
        text(mark, sits ? "you sit here" : room.closed ? "closed" : room.capacity > 0 && room.free <= 0 ? "full" : "open")
        attribute(mark, "class", sits || !room.closed && (room.capacity === 0 || room.free > 0) ? "mark open" : "mark")
        text(count, room.capacity > 0 ? `${room.count} of ${plural(room.capacity, "seat")} taken` : plural(room.count, "player"))
        fill.style.setProperty("--fill", `${room.capacity > 0 ? Math.min(100, (100 * room.count) / room.capacity) : Math.min(100, room.count)}%`)
      },
    })
  }
}

function openTable(id) {
  const wrong = !id ? "Give the table a name." : /^[A-Za-z0-9._-]{1,64}$/.test(id) ? "" : "A table's name has up to 64 of A–Z, a–z, 0–9, dot, dash and underscore."
  text($("open-error"), wrong)
  attribute($("open-id"), "aria-invalid", wrong ? "true" : undefined)
  if (wrong) return $("open-id").focus()
  $("open-id").value = ""
  location.hash = `table=${encodeURIComponent(id)}`
}
