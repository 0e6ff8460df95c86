// Who plays in this tab: a name, or a token on a server with a key. Both stay in the tab's own
// storage, so that two tabs are two players, and a reload stays the same one.

import { $, attribute, store, text } from "./dom.js"

const maxName = 64

/** What this tab knows of its user: {user} or {token}, or null. */
export const remembered = () => store.get("roomd.identity")

export const remember = (identity) => store.set("roomd.identity", identity)

let question // {auth, answer} that the form shows, undefined while it is hidden

/**
 * Asks who plays, and resolves to {user} or {token}. `problem` is shown: why the last answer was of no use. Who asks
 * while the form is open waits for the same answer, and what has been typed stays.
 */
export function ask(auth, problem = "") {
  complain(problem)
  if (!question || question.auth !== auth) question = { auth, answer: open(auth) }
  return question.answer
}

function complain(sentence) {
  text($("login-error"), sentence)
  attribute($("login-value"), "aria-invalid", sentence ? "true" : undefined)
}

function open(auth) {
  const [form, field] = [$("login-form"), $("login-value")]
  text($("login-title"), auth ? "Show a token" : "Take a name")
  text($("login-about"), auth
    ? "This server asks for a token that says who you are. It stays in this tab."
    : "The others at the table see it. Each tab can be a player of its own.")
  text($("login-label"), auth ? "Token" : "Your name")
  field.type = auth ? "password" : "text"
  attribute(field, "autocapitalize", auth ? "none" : "words")
  field.value = auth ? "" : (remembered()?.user ?? "")
  $("login").hidden = false
  field.focus()
  return new Promise((resolve) => {
    form.onsubmit = (event) => {
      event.preventDefault()
      const value = field.value.trim().normalize("NFC")
      const wrong = auth ? wrongToken(value) : wrongName(value)
      complain(wrong)
      if (wrong) return field.focus()
      $("login").hidden = true
      field.value = ""
      question = undefined
      resolve(auth ? { token: value } : { user: value })
    }
  })
}

function wrongName(name) {
  if (!name) return "Type a name first."
  if ([...name].length > maxName) return `A name has at most ${maxName} characters.`
  if (/\p{Cc}/u.test(name)) return "A name has no control characters."
  return ""
}

function wrongToken(token) {
  if (!token) return "Paste a token first."
  if (!claimsOf(token)) return "That is not a JSON Web Token: it has three parts with dots between them."
  return ""
}

/** What a token says, which only the server can check; undefined if it cannot be read. */
export function claimsOf(token) {
  try {
    const middle = token.split(".")[1].replaceAll("-", "+").replaceAll("_", "/")
    const bytes = Uint8Array.from(atob(middle), (c) => c.charCodeAt(0))
    return JSON.parse(new TextDecoder().decode(bytes))
  } catch {
    return undefined
  }
}
