// The journal of a room, newest first, as far as nodes write one.

import { request, roomPath, serverTime } from "./api.js"
import { $, make, named, patch, plural, text } from "./dom.js"
import { clock, count, duration } from "./format.js"

const kept = 200 // entries
const page = 1000
const windows = [60_000, 1_800_000, Infinity] // ms back that are asked for, until there are some entries

/** Journal follows the journal of one room. */
export class Journal {
  #id
  #entries = []
  #after
  #begun

  open(id) {
    this.#id = id
    this.#entries = []
    this.#after = undefined
    this.#begun = false
    this.#draw()
    text($("journal-count"), "")
  }

  async refresh() {
    const id = this.#id
    if (this.#after) await this.#read(id, this.#after)
    else {
      // The API begins with the oldest entry. Ids are times, so the newest are found from the end.
      for (const back of this.#begun ? [Infinity] : windows) {
        await this.#read(id, back === Infinity ? "0-0" : `${Math.round(serverTime()) - back}-0`)
        if (this.#entries.length >= 20 || id !== this.#id) break
      }
    }
    if (id !== this.#id) return
    this.#begun = true
    this.#draw()
  }

  /** Reads all entries behind one, and keeps the newest. */
  async #read(id, after) {
    let entries = this.#after === after ? this.#entries : []
    while (after) {
      const { value } = await request("GET", `${roomPath(id, "log")}?limit=${page}&after=${after}`)
      if (id !== this.#id) return
      entries = [...entries, ...value.entries].slice(-kept)
      after = value.next
    }
    this.#entries = entries
  }

  #draw() {
    this.#after = this.#entries.at(-1)?.id
    $("journal").hidden = this.#entries.length === 0
    text($("journal-count"), this.#entries.length ? `the last ${plural(this.#entries.length, "commit")}` : this.#begun ? "Nothing is written down. Nodes write a journal with --journal." : "")
    patch($("journal-rows"), this.#entries.toReversed(), {
      key: (entry) => entry.id,
      create: (entry) => make("tr", {}, make("td", {}, make("time", { datetime: entry.time, title: new Date(entry.time).toLocaleString() }, clock(Date.parse(entry.time)))),
        make("td", { class: "number" }, count(entry.version)), make("td", {}, make("ul", {}, ...entry.changes.map((change) => make("li", { dir: "auto" }, ...describe(change))))),
        make("td", {}, make("code", {}, entry.node))),
      update: () => {},
    })
  }
}

const reasons = { left: "left", timeout: "left: was away for too long", node: "left: the node died", kicked: "was kicked", closed: "had to leave: the room was closed", moved: "was moved" }

/** What a change says, as parts of a list item. Whatever players wrote is text in a direction of its own. */
function describe(change) {
  const who = change.user === undefined ? "" : named(change.user, { class: "name" })
  const why = change.text ? [": ", named(change.text)] : []
  const json = (value) => make("code", { dir: "auto" }, value === undefined ? "nothing" : JSON.stringify(value))
  switch (change.type) {
    case "join": return [who, ` took seat ${change.seat}`]
    case "leave": return [who, ` ${reasons[change.reason] ?? change.reason ?? "left"}`, ...(typeof change.to === "string" ? [` to room ${change.to}`] : []), ...why]
    case "away": return [who, " is away"]
    case "back": return [who, " is back"]
    case "member": return [who, ...(change.ready === undefined ? [] : [change.ready ? " is ready" : " is not ready"]), ...(change.data === undefined ? [] : [" data: ", json(change.data ?? undefined)])]
    case "seat": return [who, ` has seat ${change.seat} now`]
    case "private": return [who, " private data: ", json(change.data ?? undefined)]
    case "host": return [who || "nobody", " is the host now"]
    case "countdown": return [...(who ? [who, ": "] : []), `timer ${change.name} `, change.in === null ? "was cancelled" : `fires in ${duration(change.in)}`]
    case "timer": return [`timer ${change.name} fired`]
    case "data": return ["data: ", json(change.data)]
    case "settings": return ["settings: ", json(change.settings)]
    case "message": return [...(who ? [who, " said"] : ["said"]), ...(Array.isArray(change.to) ? [" to ", plural(change.to.length, "user")] : []), ...(change.text === undefined ? [": ", json(change.data)] : [": ", named(change.text)])]
    default: return [change.type]
  }
}
