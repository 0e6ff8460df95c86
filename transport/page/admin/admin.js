// The operators' page: asks the node about once a second, and shows one of its views.

import { Problem, hasToken, request, useToken } from "./api.js"
import { Charts } from "./charts.js"
import { drawChecks } from "./checks.js"
import { dismiss } from "./dialog.js"
import { $, attribute, text } from "./dom.js"
import { Fleet } from "./fleet.js"
import { History } from "./history.js"
import { ask } from "./login.js"
import { Node } from "./node.js"
import { drawNodes, drawWaits } from "./nodes.js"
import { Problems } from "./problems.js"
import { Room } from "./room.js"
import { Rooms } from "./rooms.js"
import { Setting } from "./settings.js"

const pause = 1000 // ms from an answer to the next question

const fleet = new Fleet()
const problems = new Problems(fleet)
const history = new History()
const overview = { open() {}, close() {}, draw: drawOverview }
const views = { overview, charts: new Charts(history), rooms: new Rooms(wake), room: new Room(done), node: new Node(fleet, done), setting: new Setting(fleet) }
const under = { room: "rooms", node: "overview", setting: "overview" } // what the navigation calls them
const named = { room: (id) => `Room ${id}`, node: (name) => `Node ${name}`, setting: (name) => `Setting ${name}` }
let current = false // the nodes have just been heard
let shown // the name of the view
let hurry = false // there is something to ask for at once
let awake = () => {} // ends the pause

function wake() {
  hurry = true
  awake()
}

/** Says what was done, and looks at once what came of it. */
function done(sentence) {
  text($("result"), sentence)
  wake()
}

function drawOverview() {
  problems.draw(current)
  drawChecks(fleet.live)
  drawNodes(fleet)
  drawWaits(fleet.heard)
}

/** Draws what the nodes have said, in the view that is shown. */
function draw() {
  views[shown].draw?.(problems.all)
}

/** Shows the view that the address names. `event` says that it has changed. */
function route(event) {
  const [, name, argument = ""] = /^#?([a-z]*)(?:=(.*))?$/s.exec(location.hash) ?? [undefined, ""]
  const view = !Object.hasOwn(views, name) ? "overview" : under[name] && !argument ? under[name] : name
  dismiss()
  text($("result"), "")
  views[shown]?.close()
  shown = view
  for (const other of Object.keys(views)) $(`view-${other}`).hidden = other !== view
  for (const link of document.querySelectorAll(".views a")) attribute(link, "aria-current", link.dataset.view === (under[view] ?? view) ? "page" : undefined)
  let decoded = argument
  try {
    decoded = decodeURIComponent(argument)
  } catch {
    // It is no encoding, and stands for itself.
  }
  document.title = `${named[view]?.(decoded) ?? view[0].toUpperCase() + view.slice(1)} – roomd: operators`
  views[view].open(decoded)
  draw()
  if (event && !document.activeElement.closest("header")) { // what had the focus may be hidden now
    const heading = document.querySelector(`#view-${view} h1`)
    heading.tabIndex = -1
    heading.focus({ preventScroll: true })
    scrollTo(0, 0)
  }
  wake()
}

/** Asks once for what is shown. The nodes are always among it: charts go on, and violations are told. */
async function look() {
  const trouble = []
  try {
    const { value } = await request("GET", "/api/nodes")
    fleet.update(value.nodes)
    history.add(fleet.heard)
    current = true
    problems.update()
    draw()
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem
    current = false
    draw()
    if (problem.status !== 403) throw problem // a token for some rooms may see those
    trouble.push(problem)
  }
  await views[shown].refresh?.()
  return trouble[0]
}

function say(problem) {
  const good = !problem
  $("state").dataset.state = good ? "connected" : problem.status === 403 ? "lost" : "reconnecting"
  text($("state-text"), good ? "up to date" : problem.status === 403 ? "refused" : problem.code === "no_answer" ? "no answer" : "not up to date")
  $("notice").hidden = good
  text($("notice-text"), good ? "" : problem.words)
  $("notice-action").hidden = problem?.status !== 403
}

/** Asks the operator for a token, and goes on when there is one. */
async function login(problem) {
  dismiss()
  useToken(null)
  say(undefined)
  $("state").dataset.state = "idle"
  text($("state-text"), "not signed in")
  document.body.classList.add("locked")
  const answer = ask(true, problem)
  text($("login-about"), "This node asks operators for a token with the role admin. It stays in this tab.")
  useToken((await answer).token)
  document.body.classList.remove("locked")
}

async function run() {
  for (let shownToken = false; ; ) {
    $("sign-out").hidden = !hasToken()
    try {
      say(await look())
      shownToken = true
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem
      if (problem.status === 401) {
        await login(hasToken() || shownToken ? `The node does not accept it: ${problem.message}.` : "")
        continue
      }
      say(problem)
    }
    await rest()
  }
}

/** Waits until it is time to ask again: not while nobody looks. */
async function rest() {
  const woken = new Promise((resolve) => (awake = resolve))
  if (!hurry) await Promise.race([woken, new Promise((resolve) => setTimeout(resolve, pause))])
  hurry = false
  if (document.hidden) await new Promise((resolve) => document.addEventListener("visibilitychange", resolve, { once: true }))
}

function signOut() {
  useToken(null)
  location.reload()
}

$("sign-out").onclick = signOut
$("notice-action").onclick = signOut
addEventListener("hashchange", route)
route()
run()
