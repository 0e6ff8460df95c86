// What was said and done at a table, the last of it.

import { $, announce, make, named, quoted } from "./dom.js"
import { happened } from "./words.js"

const longest = 80 // lines

/** Collects what happens in a room, and shows it when render is called. */
export class Talk {
  #ready = new Map() // who is ready, before the change that is read
  #lines = []

  constructor() {
    $("talk").replaceChildren()
  }

  /** Reads one change. */
  take(change) {
    if (change.type === "snapshot") {
      this.#ready = new Map(change.users.map((user) => [user.user, user.ready]))
      return
    }
    if (change.type === "message") return this.#said(change)
    if (change.type === "settings") {
      const { capacity } = change.settings
      return this.#add("", change.settings.closed ? "The table is closed" : capacity ? `The table has ${capacity} seats` : "The table has any number of seats")
    }
    if (!change.user || change.type === "data") return
    const sentence = happened(change, this.#ready.get(change.user))
    if (change.type === "leave") this.#ready.delete(change.user)
    else this.#ready.set(change.user, Boolean(change.ready ?? this.#ready.get(change.user)))
    if (!sentence) return
    this.#add(change.user, sentence)
    announce(`${quoted(change.user)} ${sentence}.`)
  }

  /** Adds what the user did here: the server tells it to the others only. */
  note(user, sentence) {
    this.#add(user, sentence)
  }

  #said({ user, text, data, to }) {
    const words = text ?? JSON.stringify(data)
    this.#add(user ?? "The house", to ? `(to you) ${words}` : words, true)
    announce(`${quoted(user ?? "The house")} says: ${quoted(words)}`)
  }

  #add(user, sentence, said = false) {
    this.#lines.push({ user, sentence, said })
    if (this.#lines.length > longest) this.#lines.shift()
  }

  /** Shows what has come since the last time. Who has scrolled up stays there. */
  render() {
    if (this.#lines.length === 0) return
    const list = $("talk")
    const atEnd = list.scrollHeight - list.scrollTop - list.clientHeight < 40
    for (const { user, sentence, said } of this.#lines.splice(0)) {
      const who = user ? [named(user, { class: said ? "from" : "doer" }), " "] : []
      list.append(make("li", said ? { class: "said" } : {}, ...who, make("bdi", {}, sentence)))
    }
    while (list.childElementCount > longest) list.firstElementChild.remove()
    if (atEnd) list.scrollTop = list.scrollHeight
  }
}
