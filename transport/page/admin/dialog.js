// The dialog that says what is about to happen, and asks for what it needs.

import { $, attribute, make, text } from "./dom.js"

let running // what the open dialog does

/**
 * Opens the dialog.
 * @param {{title: string, about: (string|Node)[], action: string, danger?: boolean,
 *   fields?: {name: string, label: string, hint?: string, options?: [string, string][], check?: (value: string) => string}[],
 *   work: (values: Record<string, string>) => Promise<void>}} options
 *   `check` returns what is wrong with a value. If `work` fails the dialog stays, and says why.
 */
export function confirm({ title, about, action, danger = false, fields = [], work }) {
  text($("dialog-title"), title)
  $("dialog-about").replaceChildren(...about)
  $("dialog-fields").replaceChildren(...fields.map(fieldOf))
  text($("dialog-error"), "")
  text($("dialog-go"), action)
  attribute($("dialog-go"), "class", danger ? "danger" : "primary")
  busy(false)
  running = { fields, work }
  $("dialog").showModal()
  const first = fields.length ? $(`dialog-${fields[0].name}`) : $("dialog-cancel")
  first.focus()
}

/** Closes the dialog, if one is open. */
export function dismiss() {
  running = undefined
  $("dialog").close()
}

function fieldOf({ name, label, hint, options }) {
  const id = `dialog-${name}`
  const field = options
    ? make("select", { id, name }, ...options.map(([value, words]) => make("option", { value }, words)))
    : make("input", { id, name, dir: "auto", spellcheck: "false", autocapitalize: "none" })
  if (hint) field.setAttribute("aria-describedby", `${id}-hint`)
  return make("div", { class: "field" }, make("label", { for: id }, label), field, ...(hint ? [make("p", { class: "muted", id: `${id}-hint` }, hint)] : []))
}

function busy(is) {
  $("dialog-go").disabled = is
  attribute($("dialog-form"), "aria-busy", is)
}

async function submit() {
  const mine = running
  if (!mine || $("dialog-go").disabled) return
  const values = {}
  text($("dialog-error"), "")
  for (const { name, check } of mine.fields) {
    const field = $(`dialog-${name}`)
    values[name] = field.value
    const wrong = check?.(field.value) ?? ""
    attribute(field, "aria-invalid", wrong !== "")
    if (!wrong) continue
    text($("dialog-error"), wrong)
    return field.focus()
  }
  busy(true)
  try {
    await mine.work(values)
    if (running === mine) dismiss()
  } catch (problem) {
    if (running !== mine) return
    busy(false)
    text($("dialog-error"), problem.words ?? String(problem))
    $("dialog-go").focus()
  }
}

$("dialog-form").onsubmit = (event) => {
  event.preventDefault()
  submit()
}
$("dialog-cancel").onclick = dismiss
$("dialog").addEventListener("close", () => (running = undefined))
