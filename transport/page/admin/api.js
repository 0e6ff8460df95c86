// Requests to the operators' API of the node that this page comes from.

import { store } from "./dom.js"

const patience = 10_000 // ms
const storage = "roomd.admin"

let token = store.get(storage)
let ahead // what the node's clock says at performance.now() 0, by its latest answer: this machine's may be wrong

/** What time it is at the node, in ms since 1970; not before its first answer. */
export const serverTime = () => ahead + performance.now()

export const hasToken = () => Boolean(token)

/** Keeps the token for this tab; null forgets it. */
export function useToken(value) {
  token = value
  store.set(storage, value)
}

/** Problem is a refusal: a problem document (RFC 9457), or what stands for one where there is no answer. */
export class Problem extends Error {
  constructor(status, { code = "", detail = "" }) {
    super(detail || `the node answers with status ${status}`)
    this.status = status
    this.code = code
  }

  /** What it means for who looks at the page. */
  get words() {
    if (this.code === "no_answer") return "This node does not answer. The page goes on asking."
    if (this.code === "unavailable") return `Redis does not answer the node, or not in time. The page goes on asking. (${this.message})`
    if (this.code === "unknown") return `It may have been done, or not: look before you try again. (${this.message})`
    return sentence(this.message)
  }
}

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".")

/**
 * Asks the API. Resolves to {status, etag, value}; the value is undefined where there is no content.
 * @throws {Problem}
 */
export async function request(method, path, { body, etag } = {}) {
  const headers = {}
  if (token) headers.Authorization = `Bearer ${token}`
  if (etag) headers["If-None-Match"] = etag
  if (body !== undefined) headers["Content-Type"] = "application/json"
  let answer, text
  try {
    answer = await fetch(path, { method, headers, body: body && JSON.stringify(body), cache: "no-store", signal: AbortSignal.timeout(patience) })
    text = await answer.text()
  } catch {
    throw new Problem(0, { code: "no_answer", detail: "the node does not answer" })
  }
  ahead = Date.parse(answer.headers.get("Date")) - performance.now()
  if (answer.ok || answer.status === 304) return { status: answer.status, etag: answer.headers.get("ETag"), value: parsed(text) }
  throw new Problem(answer.status, parsed(text) ?? {})
}

function parsed(text) {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** The path of a room, and what is below it. */
export const roomPath = (id, ...rest) => ["/api/rooms", id, ...rest].map((part, i) => (i ? encodeURIComponent(part) : part)).join("/")
