// Who plays in this tab: a name, or a token on a server with a key. Both stay in the tab's own
// storage, so that two tabs are two players, and a reload stays the same one.

import { $, attribute, store, text } from "./dom.js"

const maxName = 64

/** What this tab knows of its user: {user} or {token}, or null. */
export const remembered = () => store.get("roomd.identity")

export const remember = (identity) => store.set("roomd.identity", identity)

/**
 * Asks who plays, and resolves to {user} or {token}. `problem` is shown if the last answer was of no use.
 */
export function ask(auth, problem = "") {
  const [form, field, error] = [$("login-form"), $("login-value"), $("login-error")]
  text($("login-title"), auth ? "Show a token" : "Take a name")
  text($("login-about"), auth
    ? "This server asks for a token that says who you are. It stays in this tab."
    : "The others at the table see it. Each tab can be a player of its own.")
  text($("login-label"), auth ? "Token" : "Your name")
  field.type = auth ? "password" : "text"
  attribute(field, "autocapitalize", auth ? "none" : "words")
  field.value = auth ? "" : (remembered()?.user ?? "")
  const complain = (sentence) => {
    text(error, sentence)
    attribute(field, "aria-invalid", sentence ? "true" : undefined)
  }
  complain(problem)
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
  const claims = claimsOf(token)
  if (!claims) return "That is not a JSON Web Token: it has three parts with dots between them."
  if (claims.exp * 1000 < Date.now()) return "That token has expired."
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
