// The list of tables, as it is now.

import { $, attribute, make, patch, plural, text } from "./dom.js"

const every = 2000 // ms
const slowest = 16_000 // after several failures: the server has other things to do

/** Shows the lobby while it is open. `headers` returns what a request needs; `seated` says whether the user sits at a table. */
export class Lobby {
  #headers
  #seated
  #timer
  #open = false
  #pause = every

  constructor({ headers, seated }) {
    this.#headers = headers
    this.#seated = seated
    $("open-form").onsubmit = (event) => {
      event.preventDefault()
      openTable($("open-id").value.trim())
    }
    document.addEventListener("visibilitychange", () => {
      if (this.#open && !document.hidden) this.#refresh()
    })
  }

  open() {
    this.#open = true
    $("lobby").hidden = false
    $("open-error").textContent = ""
    this.#refresh()
  }

  close() {
    this.#open = false
    clearTimeout(this.#timer)
    $("lobby").hidden = true
  }

  async #refresh() {
    clearTimeout(this.#timer)
    try {
      const answer = await fetch("/api/rooms?limit=200", { headers: this.#headers(), signal: AbortSignal.timeout(10_000) })
      if (!answer.ok) throw new Error(String(answer.status))
      const list = await answer.json()
      this.#pause = every
      if (this.#open) this.#draw(list)
    } catch {
      this.#pause = Math.min(slowest, 2 * this.#pause)
      if (this.#open) text($("lobby-count"), "The list is not up to date: the server does not answer.")
    }
    clearTimeout(this.#timer)
    if (this.#open && !document.hidden) this.#timer = setTimeout(() => this.#refresh(), this.#pause)
  }

  #draw({ rooms, next, truncated }) {
    text($("lobby-count"), rooms.length ? plural(rooms.length, "table") : "")
    $("tables-empty").hidden = rooms.length > 0
    $("tables-more").hidden = !next && !truncated
    text($("tables-more"), "There are more tables. Open one by its name.")
    patch($("tables"), rooms, {
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
