// The list of rooms, with search and pages.

import { request } from "./api.js"
import { $, attribute, make, patch, plural, text } from "./dom.js"
import { count } from "./format.js"

const page = 50
const byNumber = new Intl.Collator("en", { numeric: true }) // within a page: 2 before 10

/** Rooms shows the list while it is open. */
export class Rooms {
  #contains = ""
  #after = ""
  #next = ""
  #wake

  /** `wake` has the page ask at once. */
  constructor(wake) {
    this.#wake = wake
    $("search").onsubmit = (event) => {
      event.preventDefault()
      const wanted = $("search-text").value.trim()
      const wrong = /^[A-Za-z0-9._-]*$/.test(wanted) ? "" : "Ids of rooms have A–Z, a–z, 0–9, dot, dash and underscore only."
      text($("search-error"), wrong)
      attribute($("search-text"), "aria-invalid", wrong !== "")
      if (!wrong) location.hash = wanted ? `rooms=${wanted}` : "rooms"
    }
    $("rooms-next").onclick = () => this.#turn(this.#next)
    $("rooms-first").onclick = () => this.#turn("")
  }

  open(contains) {
    if (contains !== this.#contains) this.#after = ""
    this.#contains = contains
    $("search-text").value = contains
    text($("rooms-count"), "")
  }

  close() {}

  #turn(after) {
    this.#after = after
    $("rooms-table").focus()
    this.#wake()
  }

  async refresh() {
    const [contains, after] = [this.#contains, this.#after]
    const { value } = await request("GET", `/api/rooms?limit=${page}&contains=${encodeURIComponent(contains)}&after=${encodeURIComponent(after)}`)
    if (contains !== this.#contains || after !== this.#after) return this.refresh()
    this.#draw(value)
  }

  #draw({ rooms, next = "", truncated }) {
    this.#next = next
    text($("rooms-count"), [rooms.length ? `${plural(rooms.length, "room")}${next || this.#after ? " on this page" : ""}.` : "", next || this.#after ? "Pages follow the letters of the ids: 10 is on one before 2." : "", truncated ? "Not all rooms have been found yet." : ""].join(" "))
    $("rooms-table").hidden = rooms.length === 0
    $("rooms-empty").hidden = rooms.length > 0
    text($("rooms-empty"), this.#contains ? `No room has “${this.#contains}” in its id.` : this.#after ? "There are no more rooms." : "There are no rooms yet.")
    attribute($("rooms-next"), "disabled", next ? undefined : "")
    attribute($("rooms-first"), "disabled", this.#after ? undefined : "")
    patch($("rooms-rows"), [...rooms].sort((a, b) => byNumber.compare(a.room, b.room)), {
      key: ({ room }) => room,
      create: ({ room }) => make("tr", {}, make("th", { scope: "row" }, make("a", { href: `#room=${encodeURIComponent(room)}` }, room)),
        make("td", { class: "number" }), make("td", { class: "number spare" }), make("td", {}, make("span", { class: "mark" }))),
      update: (row, { count: members, capacity, free, closed }) => {
        const [, taken, left, state] = row.children
        text(taken, capacity ? `${count(members)} of ${count(capacity)}` : count(members))
        text(left, capacity ? count(free) : "–")
        text(state.firstChild, closed ? "closed" : capacity && free <= 0 ? "full" : "open")
        row.dataset.state = closed ? "gone" : capacity && free <= 0 ? "draining" : "up"
      },
    })
  }
}
