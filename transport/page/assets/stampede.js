// The panel of the stampede: starts it, shows how it goes, and compares.

import { $, make, plural, show, text } from "./dom.js"
import { rival, stampede } from "./crowd.js"

const sliders = ["crowd", "crowd-seats"]

/** The panel beside the table. `facts` are those of /page.json. What it has found stays until the next stampede has ended. */
export class StampedePanel {
  #facts
  #leave // has the crowd leave, while there is one
  #running = false

  constructor(facts) {
    this.#facts = facts
    for (const slider of sliders) $(slider).oninput = () => text($(`${slider}-count`), $(slider).value)
    $("stampede-go").onclick = () => this.#run()
    addEventListener("pagehide", () => this.#leave?.())
  }

  /** Shows whether there can be a stampede. */
  open() {
    this.#allow(!this.#running && !this.#facts.auth)
    if (this.#facts.auth) this.#step("Off: this server asks each player for a token, and a crowd has none.")
  }

  #allow(allowed) {
    for (const control of ["stampede-go", ...sliders]) $(control).disabled = !allowed
  }

  #step(sentence, share) {
    text($("stampede-step"), sentence)
    show($("stampede-progress"), share !== undefined)
    if (share !== undefined) $("stampede-progress").value = share
  }

  async #run() {
    if (this.#running) return
    this.#running = true
    this.#allow(false)
    const [count, seats] = sliders.map((slider) => Number($(slider).value))
    const crowd = `${plural(count, "player")} at ${plural(seats, "seat")}`
    try {
      let without
      if (this.#facts.stampede) {
        const progress = (share) => this.#step(`${crowd} of a list without a lock…`, share / 2)
        progress(0)
        without = await rival(seats, count, progress).catch(() => undefined)
      }
      const progress = (share) => this.#step(`${crowd} of a table of roomd…`, 0.5 + share / 2)
      progress(0)
      this.#compare(await stampede(seats, count, progress, (leave) => (this.#leave = leave)), without)
      this.#step("")
    } catch (error) {
      this.#step(`The stampede did not come to an end: ${error.message}`)
    } finally {
      this.#leave = undefined
      this.#running = false
      this.open()
    }
  }

  #compare(here, without) {
    const off = "–"
    const rows = [
      ["told “you are in”", here.told, without?.told],
      ["and are in the list", here.kept, without?.kept],
      ["were sent away since", here.gone, off],
      ["lost players", here.lost, without?.lost, true],
      ["same seat given again", here.twice, without?.twice, true],
      ["more players than seats", here.over, without?.over, true],
      ["told “it is full”", here.refused, without?.refused],
      ["failed otherwise", here.failed, without?.failed, true],
      ["versions seen", here.versions, off],
      ["versions missing", here.gaps, off, true],
      ["added before writing", off, without && `${without.gap} ms`],
      ["time", `${Math.round(here.took)} ms`, without && `${Math.round(without.took)} ms`],
    ].filter(([name, a, b]) => name === "failed otherwise" ? a || b : name !== "were sent away since" || a)
    const cell = (value, counts) => {
      const kind = counts && typeof value === "number" ? { class: value === 0 ? "good" : "bad" } : {}
      return make("td", kind, value === undefined ? "off" : String(value))
    }
    $("compare").replaceChildren(...rows.map(([name, a, b, counts]) => make("tr", {}, make("th", { scope: "row" }, name), cell(a, counts), cell(b, counts))))
    text($("verdict"), verdict(here, without, this.#facts.stampede))
    show($("times"), without !== undefined)
    show($("stampede-result"), true)
  }
}

/** What the comparison means, in a sentence or two. */
function verdict(here, without, offered) {
  const good = here.lost + here.twice + here.over + here.gaps === 0
  const sent = here.gone > 0 ? `, but for ${here.gone} whom an operator sent away and who know it` : ""
  const own = good
    ? `roomd kept all ${here.told} whom it told “you are in”${sent}, gave no seat twice, let in no more than there are seats and left out no version.`
    : "roomd did not keep its word here. That is a defect: please report it."
  if (!without) return `${own} The comparison with a list without a lock is off: ${offered ? "it did not come to an end, or this page does not come from your own machine" : "this server is open to other machines"}.`
  if (without.lost + without.twice + without.over === 0) {
    return `${own} The list without a lock was lucky this time, and nothing made it so: try again, or with more players.`
  }
  const wrong = [
    without.lost > 0 && `${without.lost} of ${without.told} players who were told “you are in” are not in the list`,
    without.twice > 0 && `${without.twice} got a seat that somebody had already`,
    without.over > 0 && `${without.over} more came in than there are seats`,
  ].filter(Boolean)
  const last = wrong.length > 1 ? ` and ${wrong.pop()}` : ""
  const slow = without.gap > 0 ? ` That was seen with ${without.gap} ms more between reading and writing, as on a slower network.` : ""
  return `Without a lock ${wrong.join(", ")}${last}. They read the list while another player was about to write it, and the later write wiped out the earlier one.${slow} ${own}`
}
