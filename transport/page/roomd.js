// roomd.js: the client of roomd, for browsers and for Node from version 20 on. It needs no other file;
// roomd.d.ts has its types, README.md the model, and PROTOCOL.md what goes over the wire.
//
// From the bottom up: Reader is one `for await` over a room, Mirror the copy of a room, Link one WebSocket,
// Lobby one `for await` over the list of rooms, Session the user behind all connections. Room and Client are the
// program's view of Mirror and Session.

const PROTOCOL = "roomd.v1"
const MOST_LAG = 1024 // changes that a reader may be behind
const LONGEST_FRAME = 16 * 1024 // bytes; after a longer one the server closes the connection
const SILENT_ATTEMPTS = 3 // to make the first connection, before the program is told
const STEADY = 10_000 // ms after which a connection counts as a good one
const CLOSE_WAIT = 2_000 // ms for the server's answer to a close
const PROBE_WAIT = 2_000 // ms for the reason of a refusal
const RENEWAL_FLOOR = 500 // ms between two renewals, at least
const MOST_UNANSWERED = 64 // requests under way at once
const RATE_PAUSE = 100 // ms before a request that came too fast is sent again
const RATE_TRIES = 30 // how often it is sent in all; more may be useless: a user may create only so many rooms a minute
const LOBBY_SILENCE = 30_000 // ms after which a silent lobby connection is cut; the server writes at least every 15 s
const LONGEST_TIMER = 2 ** 31 - 1

// Requests that can be repeated without harm: the client sends them again if the reply is missing.
const REPEATABLE = new Set(["join", "match", "leave", "ready", "users", "watch", "unwatch"])
// The node restarts. It has answered every request that it began, so the client sends the others again.
const RESTART = 1012
// Close codes for a fault of the client, which would occur again.
const FAULTS = new Set([1002, 1003, 1007, 1008, 1009, 4009])

const NOBODY = Object.freeze([])
const NO_SETTINGS = Object.freeze({})
const NO_TIMERS = Object.freeze({})

export class RoomdError extends Error {
  constructor(code, message = code, details = {}) {
    super(message)
    Object.assign(this, { retry: false }, details, { name: "RoomdError", code })
  }
}

// refusal returns the error of a reply, if it has one.
function refusal({ error, data, epoch, version, reason, text, to }) {
  const details = { retry: error.retry === true }
  for (const [name, value] of Object.entries({ data: freeze(data), epoch, version, reason, text, to })) {
    if (value !== undefined) details[name] = value
  }
  return new RoomdError(error.code, `${error.code}: ${error.message}`, details)
}

// mendable reports whether a refused join or watch may succeed if the client sends it again.
const mendable = (error) => error.retry || error.code === "unknown"

// freeze makes a JSON value immutable.
function freeze(value) {
  if (typeof value !== "object" || value === null || Object.isFrozen(value)) return value
  for (const part of Object.values(value)) freeze(part)
  return Object.freeze(value)
}

// endsOf returns when timers end, by performance.now(), from the ms that they have left. A timer can be named toString.
function endsOf(timers) {
  const ends = Object.create(null)
  for (const [name, left] of Object.entries(timers ?? NO_TIMERS)) ends[name] = performance.now() + left
  return Object.freeze(ends)
}

// Failure wraps an error that the program's own functions threw while the client connected.
class Failure extends Error {
  constructor(cause) {
    super("the client cannot connect", { cause })
  }
}

/** Reader is one iteration over the changes of a room. */
class Reader {
  #mirror
  #queue = []
  #calls = [] // functions that resolve calls of next, which wait for a change
  #lagging = false // a snapshot is due before the queue
  #ended = false

  constructor(mirror) {
    this.#mirror = mirror
    if (mirror.error) {
      this.#ended = true
      return
    }
    this.#queue.push(mirror.snapshot(), ...(mirror.unread ?? []))
    mirror.unread = undefined
    mirror.read = true
    mirror.readers.add(this)
  }

  push(change) {
    const call = this.#calls.shift()
    if (call) {
      call({ done: false, value: change })
      return
    }
    // The snapshot is taken when the program reads it, and covers all changes until then, except the loss of a seat.
    if (this.#lagging && change.type !== "lost" && this.#queue.length === 0) return
    if (this.#queue.length >= MOST_LAG) {
      this.#queue = [...this.#queue, change].filter(({ type }) => type === "lost")
      this.#lagging = true
      return
    }
    this.#queue.push(change)
  }

  end() {
    this.#ended = true
    this.#mirror.readers.delete(this)
    for (const call of this.#calls.splice(0)) call({ done: true, value: undefined })
  }

  next() {
    if (this.#lagging) {
      this.#lagging = false
      return Promise.resolve({ done: false, value: this.#mirror.snapshot() })
    }
    if (this.#queue.length > 0) return Promise.resolve({ done: false, value: this.#queue.shift() })
    if (this.#ended) return Promise.resolve({ done: true, value: undefined })
    return new Promise((resolve) => this.#calls.push(resolve))
  }

  return(value) {
    this.#queue = []
    this.#lagging = false
    this.end()
    return Promise.resolve({ done: true, value })
  }

  [Symbol.asyncIterator]() {
    return this
  }
}

/** Mirror is the copy of one room. It sends no requests. */
class Mirror {
  epoch = ""
  version = 0
  users = NOBODY
  data = undefined
  settings = NO_SETTINGS
  timers = NO_TIMERS
  host = undefined
  seat = undefined
  member = false
  watching = false
  error = undefined
  lost = undefined // why the latest membership was lost
  moved = false // a move here was announced, and no snapshot has come since
  stale = false // events are missing, and a list has been asked for
  read = false // there was a reader
  unread = undefined // messages for the first reader, of a room that was joined with history
  restoring = false // after a reconnect the room is not joined or watched again yet
  readers = new Set()
  #waiting = [] // for versions
  #gone

  /** gone is called when the room ends. */
  constructor(id, gone) {
    this.id = id
    this.#gone = gone
  }

  snapshot() {
    const { epoch, version, users, settings, host, data, timers, seat } = this
    return Object.freeze({ type: "snapshot", epoch, version, users, settings, host, data, timers, seat })
  }

  /** enter makes the client a member. After a move, the seat comes with the snapshot. */
  enter(seat) {
    this.member = true
    this.seat = seat
    this.lost = undefined
  }

  /** awaits reports whether the client was moved here, and still waits for the snapshot. */
  get awaits() {
    return this.moved && this.member && this.seat === undefined
  }

  /**
   * replace replaces the copy by a list, in which the client, user, may have another seat. It tells the readers if the
   * copy changed, or if always is true.
   */
  replace(list, user, always) {
    if (this.member) this.seat = list.users?.find((other) => other.user === user)?.seat ?? this.seat
    const news = always || this.stale || list.epoch !== this.epoch || list.version !== this.version
    this.stale = false
    this.epoch = list.epoch ?? ""
    this.version = list.version
    if (news) {
      this.users = freeze(usersOf(list))
      this.settings = freeze(list.settings ?? NO_SETTINGS)
      this.host = list.host
      this.data = freeze(list.data)
      this.timers = endsOf(list.timers)
      this.#tell([this.snapshot()])
    }
  }

  /** hear tells the readers the earlier messages that came with the reply to a join or a watch. */
  hear({ epoch, said = [] }) {
    this.#tell(said.map((message) => freeze({ type: "message", epoch, ...message })))
  }

  /** keep keeps the messages for the first reader, until there is one. */
  keep() {
    if (!this.read) this.unread ??= []
  }

  /** change applies an event. It returns false if events before it are missing. */
  change({ epoch, version, from, changes = [] }, user) {
    if (this.stale) return true // the list that comes has this, too
    const begins = this.version === 0 && from === 0
    if (from !== this.version || (epoch !== this.epoch && !begins)) {
      this.stale = true
      return false
    }
    this.epoch = epoch
    this.version = version
    for (const change of changes) {
      if (change.type === "countdown" && change.in !== null) change.ends = performance.now() + change.in
    }
    const users = changes.some(({ type }) => OF_USERS[type]) ? [...this.users] : this.users
    for (const change of changes) {
      OF_USERS[change.type]?.(users, change)
      OF_ROOM[change.type]?.(this, change)
    }
    this.users = freeze(users)
    if (this.member && changes.some(({ type }) => type === "seat")) this.seat = users.find((other) => other.user === user)?.seat ?? this.seat
    this.#tell(changes.map((change) => freeze({ ...change, epoch, version: change.version ?? version })))
    return true
  }

  /** lose ends the membership, because the server has ended that or the watch. It tells the readers once. */
  lose({ reason, text, to }) {
    const details = { reason, ...(text && { text }), ...(to && { to }) }
    const error = new RoomdError("lost", `the seat in room ${this.id} is lost: ${reason}`, details)
    this.member = false
    this.seat = undefined
    if (!this.lost) this.#tell([Object.freeze({ type: "lost", epoch: this.epoch, version: this.version, ...details })])
    this.lost = error
    if (!this.watching) this.end(error)
  }

  /** quit ends the membership, or with the code unwatched the watch, and the room if neither is left. */
  quit(code) {
    if (code === "unwatched") this.watching = false
    else {
      this.member = false
      this.seat = undefined
    }
    if (!this.member && !this.watching) this.end(new RoomdError(code, `room ${this.id}: ${code}`))
  }

  end(error) {
    if (this.error) return
    this.error = error
    this.#gone()
    this.member = this.watching = false
    this.seat = undefined
    for (const reader of [...this.readers]) reader.end()
    this.#tell([])
  }

  /** reached waits until the copy has the version that a reply names. */
  reached({ epoch, version }) {
    if (this.error || (epoch === this.epoch && version <= this.version)) return Promise.resolve()
    return new Promise((resolve) => this.#waiting.push({ epoch, version, resolve }))
  }

  #tell(changes) {
    for (const change of changes) {
      for (const reader of [...this.readers]) reader.push(change)
      if (this.unread && change.type === "message") this.unread = [...this.unread.slice(1 - MOST_LAG), change]
    }
    this.#waiting = this.#waiting.filter(({ epoch, version, resolve }) => {
      if (!this.error && epoch === this.epoch && version > this.version) return true
      resolve()
      return false
    })
  }
}

// How changes alter the users of a room, by type.
const OF_USERS = {
  __proto__: null,
  join(users, { user, seat, away }) {
    const at = users.findIndex((other) => other.seat > seat)
    users.splice(at < 0 ? users.length : at, 0, away ? { user, seat, away } : { user, seat })
  },
  leave(users, { user }) {
    const at = users.findIndex((other) => other.user === user)
    if (at >= 0) users.splice(at, 1)
  },
  // The next change gives another seat to the user who had this one.
  seat(users, { user, seat }) {
    alter(users, user, (old) => ({ ...old, seat }))
    users.sort((a, b) => a.seat - b.seat)
  },
  away: (users, { user }) => alter(users, user, (old) => ({ ...old, away: true })),
  back: (users, { user }) => alter(users, user, ({ away, ...rest }) => rest),
  // Fields that the change leaves out stay as they are; data null removes the data.
  member(users, change) {
    alter(users, change.user, ({ ready: wasReady, data: had, ...rest }) => {
      const { ready = wasReady, data = had } = change
      return { ...rest, ...(ready && { ready }), ...(data !== undefined && data !== null && { data }) }
    })
  },
  private(users, change) {
    alter(users, change.user, ({ private: had, ...rest }) => ({ ...rest, ...(change.data !== null && { private: change.data }) }))
  },
}

// How changes alter the room itself. A client ignores types that it does not know.
const OF_ROOM = {
  __proto__: null,
  settings: (mirror, { settings }) => (mirror.settings = freeze(settings)),
  host: (mirror, { user }) => (mirror.host = user),
  data: (mirror, { data }) => (mirror.data = freeze(data)),
  countdown: (mirror, { name, ends }) => setTimer(mirror, name, ends),
  timer: (mirror, { name }) => setTimer(mirror, name),
}

// setTimer sets the end of a timer in the copy of a room; undefined removes the timer.
function setTimer(mirror, name, ends) {
  const timers = Object.assign(Object.create(null), mirror.timers)
  if (ends === undefined) delete timers[name]
  else timers[name] = ends
  mirror.timers = Object.freeze(timers)
}

function alter(users, name, change) {
  const at = users.findIndex(({ user }) => user === name)
  if (at >= 0) users[at] = change(users[at])
}

// usersOf returns the users of a list, each with the private data that this client may see.
function usersOf({ users = [], private: shown }) {
  if (!shown) return users
  return users.map((user) => (Object.hasOwn(shown, user.user) ? { ...user, private: shown[user.user] } : user))
}

const isObject = (value) => typeof value === "object" && value !== null

// parse reads a frame of the server. It throws if the frame's lists would break the copies of the rooms.
function parse(text) {
  const frame = JSON.parse(text)
  if (!isObject(frame)) throw new TypeError("not an object")
  for (const name of ["users", "changes"]) {
    const list = frame[name] ?? []
    if (!Array.isArray(list) || !list.every(isObject)) throw new TypeError(`${name}: not a list of objects`)
  }
  return frame
}

/**
 * Link is one WebSocket, with the requests that wait for replies, and the heartbeat. If the server refuses a request
 * because too many came at once, Link sends it again, and sends fewer at once from then on.
 */
class Link {
  #socket
  #heartbeat
  #onEvent
  #lastID = 0
  #asked = 0 // how many requests were asked for: the place of the last
  #pending = new Map() // by id
  #queue = [] // requests that are not sent
  #window = MOST_UNANSWERED // how many may be without a reply
  #rest // the timer of a pause in which no request is sent
  #pinged = false
  #heard = 0 // when the last frame came
  #timer
  #over = false
  #end
  opened
  ended // resolves to the close event: code, reason

  constructor(socket, heartbeat, onEvent) {
    this.#socket = socket
    this.#heartbeat = heartbeat
    this.#onEvent = onEvent
    this.ended = new Promise((resolve) => (this.#end = resolve))
    this.opened = new Promise((resolve, reject) => {
      socket.addEventListener("open", () => resolve())
      this.ended.then(() => reject(new Error("the connection could not be made")))
    })
    this.opened.then(() => this.#listen(), () => {})
    socket.addEventListener("error", () => this.drop("the connection is broken")) // a close event may follow, or none
    socket.addEventListener("message", ({ data }) => this.#receive(data))
    socket.addEventListener("close", ({ code, reason }) => this.#finish(code, reason))
  }

  get protocol() {
    return this.#socket.protocol
  }

  /** send queues a request: its frame as text, without an id, and a function for the reply. */
  send(request) {
    request.place = ++this.#asked
    this.#queue.push(request)
    this.#advance()
  }

  #advance() {
    this.#queue = this.#queue.filter(({ settled }) => !settled)
    while (this.#queue.length > 0 && !this.#rest && !this.#over && this.#pending.size < Math.floor(this.#window)) this.#transmit(this.#queue.shift())
  }

  #transmit(request) {
    const id = ++this.#lastID
    request.sent = true
    this.#pending.set(id, request)
    this.#socket.send(`{"id":${id},${request.text.slice(1)}`)
  }

  /** retry queues a request that came too fast again, before the requests that were asked for later, and pauses. */
  #retry(request) {
    request.sent = false
    const at = this.#queue.findIndex(({ place }) => place > request.place)
    this.#queue.splice(at < 0 ? this.#queue.length : at, 0, request)
    this.#window = 1
    this.#rest ??= setTimeout(() => {
      this.#rest = undefined
      this.#advance()
    }, RATE_PAUSE)
  }

  /** ask sends a request of the client's own. It resolves to the reply, or to undefined if the connection ends first. */
  ask(frame, apply) {
    return new Promise((resolve) => {
      this.ended.then(() => resolve(undefined))
      const done = (reply) => {
        if (!reply.error) apply?.(reply)
        resolve(reply)
      }
      this.send({ text: JSON.stringify(frame), internal: true, done })
    })
  }

  async authenticate(token) {
    const reply = await this.ask({ action: "auth", token })
    if (!reply) throw new Error("the connection has ended")
    if (reply.error) throw refusal(reply)
    return reply
  }

  /** takeBack removes the program's requests without a reply, and returns them in the order of asking. */
  takeBack() {
    const requests = [...this.#pending.values(), ...this.#queue].filter(({ internal, settled }) => !internal && !settled).sort((a, b) => a.place - b.place)
    this.#pending.clear()
    this.#queue = []
    return requests
  }

  /** leave says goodbye, so that the server frees the seats. */
  async leave() {
    this.#socket.close(1000)
    const timer = setTimeout(() => this.drop("closed here"), CLOSE_WAIT)
    await this.ended
    clearTimeout(timer)
  }

  /** drop ends the connection at once, as a broken network would. A browser may report the close a minute later. */
  drop(reason) {
    if (this.#over) return
    this.#over = true
    if (this.#socket.terminate) this.#socket.terminate()
    else this.#socket.close()
    this.#finish(1006, reason)
  }

  /** suspend ends the connection, and the server keeps the seats. */
  suspend() {
    this.#over = true
    this.#socket.close(4000, "the page was left")
    this.#finish(1006, "the page was left")
  }

  #finish(code, reason) {
    this.#over = true
    clearTimeout(this.#timer)
    clearTimeout(this.#rest)
    this.#onEvent = undefined
    this.#end({ code, reason })
  }

  #receive(text) {
    if (!this.#onEvent) return // dropped
    this.#heard = performance.now()
    this.#pinged = false
    let frame
    try {
      frame = parse(text)
    } catch (error) {
      this.drop(`the server sent what is no frame: ${error.message}`)
      return
    }
    if (frame.event !== undefined) {
      this.#onEvent(frame)
      return
    }
    const request = this.#pending.get(frame.id)
    this.#pending.delete(frame.id)
    if (request && frame.error?.code === "rate_limited" && (request.tries = (request.tries ?? 0) + 1) < RATE_TRIES) this.#retry(request)
    else {
      this.#window = Math.min(MOST_UNANSWERED, this.#window + 1 / this.#window)
      request?.done(frame)
    }
    this.#advance()
  }

  #listen() {
    this.#heard = performance.now()
    this.#timer = setTimeout(() => this.#beat(), this.#heartbeat.idle)
  }

  #beat() {
    const left = this.#heartbeat.idle - (performance.now() - this.#heard)
    if (this.#pinged) {
      this.drop("the server is silent")
    } else if (left > 0) {
      this.#timer = setTimeout(() => this.#beat(), left)
    } else {
      this.#transmit({ text: '{"action":"ping"}', internal: true, done() {} })
      this.#pinged = true
      this.#timer = setTimeout(() => this.#beat(), this.#heartbeat.timeout)
    }
  }
}

// The orders of a lobby. Rooms that are equal in one are ordered by their ids.
const ORDERS = {
  __proto__: null,
  id: () => 0,
  members: (a, b) => b.count - a.count,
  age: (a, b) => (b.since ?? Infinity) - (a.since ?? Infinity) || 0, // one that is too new to have an age is the newest
}

/** Lobby is one iteration over the list of rooms. A reader gets the newest list, not each of them. Session feeds it. */
class Lobby {
  #order
  #rooms // by id; undefined before the first list
  #parts = [] // events of a list that is not whole yet; another connection begins with a list in their place
  #stale = false
  #news = false
  #calls = [] // of next, which wait for a list
  #error
  #over = new AbortController() // its signal ends the feeding by Session
  query // of the request

  constructor({ prefix, contains, labels = {}, free, sort = "id", ...rest } = {}) {
    nothingElse("lobby", rest)
    if (!ORDERS[sort]) throw new RoomdError("bad_request", `sort: must be ${Object.keys(ORDERS).join(", ")}`)
    this.#order = (a, b) => ORDERS[sort](a, b) || (a.room < b.room ? -1 : 1)
    this.query = new URLSearchParams({ watch: "", ...(prefix && { prefix }), ...(contains && { contains }), ...(free && { free }) })
    for (const [name, value] of Object.entries(labels)) this.query.append("label", `${name}:${value}`)
  }

  get over() { return this.#over.signal }
  get begun() { return this.#rooms !== undefined }

  /** hear applies an event. */
  hear(name, event) {
    this.#parts.push({ ...event, whole: name === "rooms" })
    if (event.more) return
    for (const { whole, rooms = [], gone = [] } of this.#parts.splice(0)) {
      if (whole) this.#rooms = new Map()
      for (const room of rooms) this.#rooms?.set(room.room, freeze(room))
      for (const id of gone) this.#rooms?.delete(id)
    }
    this.#stale = false
    this.#tell()
  }

  /** miss tells the reader that no server answers. */
  miss() {
    if (this.#stale) return
    this.#stale = true
    this.#tell()
  }

  end(error) {
    this.#error ??= error
    this.#over.abort()
    for (const call of this.#calls.splice(0)) this.next().then(call.resolve, call.reject)
  }

  #tell() {
    this.#news = this.begun
    const call = this.#news && this.#calls.shift()
    if (call) this.next().then(call.resolve)
  }

  async next() {
    if (this.#news) {
      this.#news = false
      return { done: false, value: Object.freeze({ rooms: Object.freeze([...this.#rooms.values()].sort(this.#order)), stale: this.#stale }) }
    }
    const error = this.#error
    this.#error = undefined // which is thrown once
    if (error) throw error
    if (this.over.aborted) return { done: true, value: undefined }
    return new Promise((resolve, reject) => this.#calls.push({ resolve, reject }))
  }

  async return(value) {
    this.#news = false
    this.end()
    return { done: true, value }
  }

  [Symbol.asyncIterator]() {
    return this
  }
}

/** events reads server-sent events (text/event-stream). It calls heard for all that arrives, comments included. */
async function* events(body, heard) {
  const reader = body.getReader()
  const decoder = new TextDecoder()
  let rest = "", name = "", data = ""
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return
    heard()
    const lines = (rest + decoder.decode(value, { stream: true })).split("\n")
    rest = lines.pop()
    for (const line of lines) {
      if (line.startsWith("event:")) name = line.slice(6).trim()
      else if (line.startsWith("data:")) data += line.slice(5)
      else if (line === "") {
        if (data) yield [name, JSON.parse(data)]
        name = data = ""
      }
    }
  }
}

/** Session is the user: it connects, connects again, and restores its rooms. */
class Session {
  state = "connecting"
  error = undefined
  user
  address
  rooms = new Map()
  mirrors = new Map()
  client
  #addresses
  #options
  #link // the current one, also while it is being made
  #waiting = [] // requests that are not sent
  #refused = false // the last token was not accepted
  #degraded = false // the server says that it cannot reach Redis
  #expires // of the token, in seconds since 1970
  #renewal
  #ends = new Set() // functions that the end of the client calls
  #shown // resolves when a page that was left is shown again

  constructor(url, options) {
    const { user, token, WebSocket = globalThis.WebSocket, signal, timeout = 10_000, backoff = {}, heartbeat = {}, onUnreachable = warn, ...rest } = options
    nothingElse("connect", rest)
    const { base = 250, cap = 5_000, ...restOfBackoff } = backoff
    nothingElse("connect: backoff", restOfBackoff)
    const { idle = 6_000, timeout: silence = 5_000, ...restOfHeartbeat } = heartbeat
    nothingElse("connect: heartbeat", restOfHeartbeat)
    this.#options = { token, WebSocket, timeout, onUnreachable, backoff: { base, cap }, heartbeat: { idle, timeout: silence } }
    if (!this.#options.WebSocket) throw new TypeError("WebSocket: there is none here; give that of the package ws")
    this.#addresses = [url].flat().map((address) => resolve(address, user))
    if (this.#addresses.length === 0) throw new RoomdError("bad_request", "url: there is none")
    this.user = user
    this.client = new Client(this)
  }

  /** start connects for the first time, and then keeps connected in the background. */
  start(signal) {
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted()
      const abort = () => {
        this.#fail(new RoomdError("client_closed", "the attempt to connect was aborted"))
        reject(signal.reason)
      }
      signal?.addEventListener("abort", abort, { once: true })
      const settle = (finish) => (value) => {
        signal?.removeEventListener("abort", abort)
        finish(value)
      }
      this.#run(settle(resolve), settle(reject))
    })
  }

  /**
   * A browser may keep a page that the user has left, with its connection: the user would not seem away. So the
   * client ends the connection when the user leaves the page, and connects again when the page is shown again.
   */
  #watchPage() {
    if (!globalThis.document) return
    const until = new AbortController()
    this.#ends.add(() => until.abort())
    const { signal } = until
    addEventListener("pagehide", () => {
      this.#shown = new Promise((resolve) => addEventListener("pageshow", resolve, { once: true, signal }))
      this.#link?.suspend()
    }, { signal })
  }

  async #run(connected, failed) {
    this.#watchPage()
    let next = Math.floor(Math.random() * this.#addresses.length)
    for (let n = 0; !this.error; n++) {
      const link = await this.#try(this.#addresses[next++ % this.#addresses.length], n, failed)
      if (link) {
        const began = performance.now()
        this.#up(link)
        connected()
        const { code, reason } = await link.ended
        if (performance.now() - began >= STEADY) n = 0
        if (this.#link === link) this.#down(link, code)
        this.#judge(code, reason)
      }
      if (!this.error) await this.#within(this.#pause(n))
      if (!this.error && this.#shown) await this.#within(LONGEST_TIMER, this.#shown)
    }
    failed(this.error)
  }

  /** try makes attempt n, from 0 on, to connect. If it fails, it returns undefined, and ends the client if no other can help. */
  async #try(address, n, failed) {
    try {
      return await this.#open(address)
    } catch (error) {
      this.#link = undefined
      if (this.error) return undefined
      if (error instanceof Failure && this.state === "connecting") {
        failed(error.cause)
        this.#fail(new RoomdError("client_closed", "the client could not connect"))
      } else if (error instanceof RoomdError && this.#final(error)) {
        this.#fail(error)
      } else if (n === SILENT_ATTEMPTS - 1 && this.state === "connecting") {
        const why = new Error(`${SILENT_ATTEMPTS} attempts to connect have failed, the last to ${this.address}, and more follow: ${error.message}`, { cause: error })
        queueMicrotask(() => this.#options.onUnreachable(why)) // what it throws is not for the client
      }
      return undefined
    }
  }

  /** lobby starts to feed an iteration, in the background, until it or the client ends. */
  lobby(query, signal) {
    signal?.throwIfAborted()
    const lobby = new Lobby(query)
    if (this.error) lobby.end(this.error)
    const abort = () => lobby.end(signal.reason)
    const end = () => lobby.end(this.error)
    signal?.addEventListener("abort", abort, { once: true })
    this.#ends.add(end)
    this.#feed(lobby).finally(() => {
      signal?.removeEventListener("abort", abort)
      this.#ends.delete(end)
    })
    return lobby
  }

  async #feed(lobby) {
    const over = new Promise((resolve) => lobby.over.addEventListener("abort", resolve, { once: true }))
    let next = Math.floor(Math.random() * this.#addresses.length)
    let refused = false // the last token was not accepted
    for (let n = 0; !lobby.over.aborted; n++) {
      const began = performance.now()
      try {
        await this.#listen(lobby, this.#addresses[next++ % this.#addresses.length], () => (refused = false))
        if (performance.now() - began >= STEADY) n = 0
      } catch (error) {
        const again = error.code === "unauthorized" && !refused && typeof this.#options.token === "function"
        refused ||= error.code === "unauthorized"
        if (error instanceof Failure && !lobby.begun) lobby.end(error.cause)
        else if (error instanceof RoomdError && !error.retry && !again) lobby.end(error)
        else lobby.miss()
      }
      if (!lobby.over.aborted) await this.#within(this.#pause(n), over)
    }
  }

  /** listen follows the lobby on one server, until that connection or the iteration ends. It throws if the server refuses. */
  async #listen(lobby, address, accepted) {
    const token = await this.#token()
    const url = new URL("api/rooms", address)
    url.protocol = address.protocol === "wss:" ? "https:" : "http:"
    url.search = lobby.query
    const cut = new AbortController()
    let timer = setTimeout(() => cut.abort(), this.#options.timeout)
    const end = () => cut.abort()
    lobby.over.addEventListener("abort", end)
    if (lobby.over.aborted) end()
    let listening = false
    try {
      const headers = token === undefined ? {} : { Authorization: `Bearer ${token}` }
      const response = await fetch(url, { headers, redirect: "error", cache: "no-store", signal: cut.signal })
      if (!response.ok) throw await problemOf(response, lobby.begun)
      if (!response.headers.get("Content-Type")?.startsWith("text/event-stream")) throw new RoomdError("bad_request", `${url.origin} has no lobby`, { retry: lobby.begun })
      accepted()
      listening = true
      const heard = () => {
        clearTimeout(timer)
        timer = setTimeout(() => cut.abort(), LOBBY_SILENCE)
      }
      heard()
      for await (const [name, event] of events(response.body, heard)) {
        if (name === "rooms" || name === "changes") lobby.hear(name, event)
      }
    } catch (error) {
      if (!listening) throw error // otherwise it is only the end of this connection
    } finally {
      clearTimeout(timer)
      lobby.over.removeEventListener("abort", end)
      cut.abort()
    }
  }

  /** pause returns how long to wait before the next attempt: a random time below a limit that doubles, so that clients spread out. */
  #pause(n) {
    const { base, cap } = this.#options.backoff
    return Math.random() * Math.min(cap, base * 2 ** Math.min(n, 30))
  }

  /** open makes a connection, and authenticates it with the token. */
  async #open(address) {
    const { WebSocket, heartbeat, timeout } = this.#options
    const token = await this.#token()
    if (this.error) throw this.error
    // A page sends the token in the first frame: a failed handshake would not say why the token is refused.
    const page = globalThis.location !== undefined
    this.address = address.origin + address.pathname
    let socket
    try {
      socket = new WebSocket(address.href, token === undefined || page ? [PROTOCOL] : [PROTOCOL, "roomd.token." + token])
    } catch (error) {
      throw new Failure(error)
    }
    this.#degraded = false
    const link = (this.#link = new Link(socket, heartbeat, (event) => this.#event(event)))
    let late = false
    const expired = () => {
      late = true
      link.drop("the handshake took too long")
    }
    const timer = setTimeout(expired, timeout)
    try {
      await link.opened
      if (link.protocol !== PROTOCOL) throw new RoomdError("bad_request", `${this.address} does not speak ${PROTOCOL}`)
      if (token !== undefined && page) this.#granted(await link.authenticate(token))
      else this.#granted(claims(token))
      return link
    } catch (error) {
      link.drop("not accepted")
      if (error instanceof RoomdError || late || this.error) throw error
      throw (await probe(address, page ? undefined : token)) ?? error
    } finally {
      clearTimeout(timer)
    }
  }

  async #token() {
    const { token, timeout } = this.#options
    if (typeof token !== "function") return token
    try {
      const given = await this.#within(timeout, Promise.resolve(token()).then((text) => ({ text })))
      if (!given) throw new Error("option token: no token came in time")
      return given.text
    } catch (error) {
      throw error instanceof RoomdError ? error : new Failure(error)
    }
  }

  /** within settles as the promise does, or resolves to undefined after ms or when the client ends. It leaves no timer. */
  #within(ms, ...promise) {
    let over
    const cut = new Promise((resolve) => (over = resolve))
    const timer = setTimeout(over, ms)
    this.#ends.add(over)
    return Promise.race([cut, ...promise]).finally(() => {
      clearTimeout(timer)
      this.#ends.delete(over)
    })
  }

  #granted({ user, expires }) {
    this.user = user ?? this.user
    this.#expires = expires
  }

  #up(link) {
    this.#refused = false
    this.#planRenewal(link)
    for (const mirror of this.mirrors.values()) {
      mirror.restoring = true
      mirror.stale = mirror.moved = false
      this.#restore(mirror, link)
    }
    this.#become(this.#degraded ? "degraded" : "connected")
    this.flush()
  }

  #down(link, code) {
    this.#link = undefined
    clearTimeout(this.#renewal)
    for (const mirror of this.mirrors.values()) mirror.restoring = true
    const again = []
    for (const request of link.takeBack()) {
      if (code === RESTART) request.sent = false
      if (!request.sent || REPEATABLE.has(request.frame.action)) again.push(request)
      else request.failed(new RoomdError("unknown", `${request.frame.action}: the connection broke before the reply came; it was done or it was not`))
    }
    for (const request of again) this.#limit(request)
    this.#waiting.unshift(...again)
  }

  /** judge decides by a close code whether to connect again. */
  #judge(code, reason) {
    if (this.error) return
    const text = `the connection was closed with ${code}${reason ? ": " + reason : ""}`
    if (code === 4001) this.#fail(new RoomdError("replaced", text, { closeCode: code }))
    else if (FAULTS.has(code)) this.#fail(new RoomdError("disconnected", text, { closeCode: code }))
    else if (code === 4003) {
      const error = new RoomdError("unauthorized", text, { closeCode: code })
      if (this.#final(error)) this.#fail(error)
    }
    if (!this.error) this.#become("reconnecting")
  }

  /** final reports whether a refusal ends the client. After the first refused token, the client asks for another one. */
  #final(error) {
    if (error.code !== "unauthorized") return !error.retry
    if (this.#refused || typeof this.#options.token !== "function") return true
    this.#refused = true
    return false
  }

  #become(state) {
    if (this.state === state) return
    this.state = state
    this.client.dispatchEvent(new Event("state"))
  }

  /** fail ends the client. */
  #fail(error) {
    if (this.error) return
    this.error = error
    clearTimeout(this.#renewal)
    const link = this.#link
    if (link) this.#down(link)
    link?.drop("lost")
    for (const request of this.#waiting.splice(0)) request.failed(error)
    for (const mirror of this.mirrors.values()) mirror.end(error)
    for (const end of this.#ends) end()
    this.#become("lost")
  }

  async close() {
    if (this.error) return
    const link = this.#link
    const goodbye = this.#connected ? link.leave() : undefined
    this.#link = goodbye ? undefined : link // fail would cut it off
    if (goodbye) this.#down(link)
    this.#fail(new RoomdError("client_closed", "the program closed the client"))
    await goodbye
  }

  /** planRenewal sets the timer of a renewal, by the server's time: the server's clock decides when the token expires. */
  async #planRenewal(link) {
    if (typeof this.#options.token !== "function" || this.#expires === undefined) return
    const reply = await link.ask({ action: "ping" })
    if (!reply || this.#link !== link) return
    const left = this.#expires * 1000 - reply.time || 0 // a ping that is refused has no time
    this.#renewal = setTimeout(() => this.#renew(link), Math.min(Math.max(left * 0.8, RENEWAL_FLOOR), LONGEST_TIMER))
  }

  async #renew(link) {
    try {
      const token = await this.#token()
      if (this.#link === link) this.#granted(await link.authenticate(token))
    } catch {
      // The older token remains valid. The server says when it has expired.
    }
    if (this.#link === link && !this.error) this.#planRenewal(link)
  }

  /** restore joins and watches a room again. The room's other requests wait meanwhile. */
  async #restore(mirror, link) {
    const { id: room, epoch, version, seat } = mirror
    if (mirror.member) {
      const since = seat === undefined ? {} : { expect: version, epoch } // moved here, and no list has come yet
      const lost = await this.#insist(mirror, link, { action: "join", room, seat, ...since }, (reply) => {
        mirror.enter(reply.seat)
        mirror.replace(reply, this.user, true)
        mirror.hear(reply)
      })
      if (lost) mirror.lose({ ...lost, reason: lost.reason ?? lost.code })
    }
    if (mirror.watching && this.#link === link) {
      const since = mirror.settings?.history ? { expect: version, epoch } : {} // what was said meanwhile
      const refused = await this.#insist(mirror, link, { action: "watch", room, ...since }, (reply) => {
        mirror.replace(reply, this.user, !mirror.member)
        mirror.hear(reply)
      })
      if (refused) {
        mirror.watching = false
        if (!mirror.member) mirror.lose({ reason: refused.code })
      }
    }
    if (this.#link !== link) return
    mirror.restoring = false
    this.flush()
  }

  /**
   * insist repeats a request while that may help. It returns the server's last refusal, or undefined. Until the server
   * notices that the earlier connection is broken, it may refuse the user because of that session.
   */
  async #insist(mirror, link, frame, apply) {
    const began = performance.now()
    for (let n = 0; this.#link === link && !mirror.error; n++) {
      const reply = await link.ask(frame, apply)
      if (!reply?.error || this.#link !== link) return undefined
      const error = refusal(reply)
      const maybeOwn = error.code === "duplicate_user" && performance.now() - began < 2 * this.#options.heartbeat.idle
      if (!mendable(error) && !maybeOwn) return error
      await this.#within(this.#pause(n), link.ended)
    }
    return undefined
  }

  /** request sends a frame once it can. apply gets the reply before the next frame is read; an error only if errors has its code. */
  request(frame, { signal, apply, errors = [] } = {}) {
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted()
      if (this.error) throw this.error
      const request = { frame, text: textOf(frame), signal }
      const abort = () => request.failed(signal.reason)
      const settle = () => {
        request.settled = true
        clearTimeout(request.timer)
        signal?.removeEventListener("abort", abort)
        this.#waiting = this.#waiting.filter((other) => other !== request)
      }
      request.done = (reply) => {
        settle()
        if (reply.error && !errors.includes(reply.error.code)) return reject(refusal(reply))
        resolve(apply ? apply(reply) : reply)
      }
      request.failed = (error) => {
        settle()
        reject(error)
      }
      signal?.addEventListener("abort", abort, { once: true })
      this.#limit(request)
      this.#waiting.push(request)
      this.flush()
    })
  }

  #limit(request) {
    const none = `no connection in ${this.#options.timeout} ms`
    const expired = () => {
      if (request.sent) request.done({ error: { code: "unknown", message: `${none}; it was done or it was not` } })
      else request.failed(new RoomdError("timeout", `${request.frame.action}: ${none}`, { retry: true }))
    }
    request.timer = setTimeout(expired, this.#options.timeout)
  }

  flush() {
    if (!this.#connected) return
    this.#waiting = this.#waiting.filter((request) => {
      const mirror = this.mirrors.get(request.frame.room ?? request.frame.party)
      if (mirror?.restoring || (mirror?.awaits && request.frame.action !== "join")) return true
      clearTimeout(request.timer)
      this.#link.send(request)
      return false
    })
  }

  /** enter returns the room's mirror, and makes it if there is none. */
  enter(id) {
    let mirror = this.mirrors.get(id)
    if (!mirror) {
      const gone = () => [this.mirrors, this.rooms].forEach((all) => all.delete(id))
      mirror = new Mirror(id, gone)
      this.mirrors.set(id, mirror)
      this.rooms.set(id, new Room(mirror, this))
    }
    return mirror
  }

  /** entered applies the reply to a join, a match or a watch. history is undefined if that asked for no messages. */
  entered(action, reply, history) {
    const mirror = this.enter(reply.room)
    if (history !== undefined) mirror.keep()
    if (action === "watch") mirror.watching = true
    else {
      this.user = reply.users?.find(({ seat }) => seat === reply.seat)?.user ?? this.user
      mirror.enter(reply.seat)
    }
    mirror.replace(reply, this.user, false)
    mirror.hear(reply)
    return this.rooms.get(reply.room)
  }

  /** left applies the reply to a leave. If the server had ended the membership before, it returns why. */
  left(id, mirror, reply) {
    if (reply.error && reply.reason) {
      this.#lost(id, reply)
      return mirror.lost
    }
    if (reply.error && mirror.lost) return mirror.lost
    // This is mirror, or a newer one if mirror was lost before the reply came.
    this.mirrors.get(id)?.quit("left")
    return reply.error?.code === "unknown" ? refusal(reply) : undefined
  }

  /** lost applies the end of a membership. A moved user is a member of the other room from then on; its snapshot follows. */
  #lost(id, event) {
    const mirror = this.mirrors.get(id)
    mirror?.lose(event)
    if (!event.to) return
    const target = this.enter(event.to)
    target.moved = true
    if (!target.member) target.enter(undefined)
  }

  #event(event) {
    if (this.error) return
    if (event.event === "node") return this.#serves(event.degraded === true)
    if (event.event === "snapshot") return this.#snapshot(event)
    if (event.event === "lost") return this.#lost(event.room, event)
    const mirror = this.mirrors.get(event.room)
    if (!mirror) return
    if (event.event === "unwatched") {
      mirror.watching = false
      if (!mirror.member) mirror.lose(event)
    } else if (event.event === "changes" && !mirror.change(event, this.user)) this.#resync(mirror, this.#link)
  }

  /** serves records whether the server is degraded. The server may say so before the client is connected. */
  #serves(degraded) {
    this.#degraded = degraded
    if (this.#connected) this.#become(degraded ? "degraded" : "connected")
  }

  get #connected() {
    return this.state === "connected" || this.state === "degraded"
  }

  /**
   * snapshot replaces a room. A snapshot that lists the client makes it a member if it has no such room, or if a move
   * there was announced: the reply to a leave may have crossed the move.
   */
  #snapshot(event) {
    let mirror = this.mirrors.get(event.room)
    if (!mirror || mirror.moved) {
      const seated = event.users?.find(({ user }) => user === this.user)
      if (seated) (mirror = this.enter(event.room)).enter(seated.seat)
    }
    if (!mirror) return
    mirror.moved = false
    mirror.replace(event, this.user, true)
    this.flush()
  }

  /** resync asks for the list of a room whose events are missing. */
  async #resync(mirror, link) {
    await this.#insist(mirror, link, { action: "users", room: mirror.id }, (reply) => {
      if (mirror.stale) mirror.replace(reply, this.user, true)
    })
  }
}

const warn = (error) => console.warn(`roomd.js: ${error.message}`)

// resolve returns the WebSocket URL of an address.
function resolve(address, user) {
  const bad = (why) => new RoomdError("bad_request", `url: ${JSON.stringify(address)} ${why}`)
  const path = /^[./]/.test(address)
  if (path && !globalThis.location) throw bad("is a path, and there is no page here: write ws://HOST/ws")
  if (!path && !/^[a-z][a-z0-9+.-]*:\/\//i.test(address)) throw bad(`has no scheme: write ws://${address} or wss://${address}`)
  let url
  try {
    url = new URL(address, globalThis.location?.href)
  } catch {
    throw bad("is no URL")
  }
  url.protocol = { "http:": "ws:", "https:": "wss:" }[url.protocol] ?? url.protocol
  if (url.protocol !== "ws:" && url.protocol !== "wss:") throw bad(`has the scheme ${url.protocol.slice(0, -1)}; it must be ws, wss, http or https`)
  if (url.username || url.password) throw new RoomdError("bad_request", "url: must not hold a user name or password")
  if (url.pathname === "/") url.pathname = "/ws"
  url.hash = ""
  if (user !== undefined) url.searchParams.set("user", user)
  return url
}

// claims reads a token's user and expiry, without verifying it.
function claims(token) {
  try {
    const bytes = Uint8Array.from(atob(token.split(".")[1].replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0))
    const { sub, exp } = JSON.parse(new TextDecoder().decode(bytes))
    return { user: typeof sub === "string" ? sub : undefined, expires: typeof exp === "number" ? exp : undefined }
  } catch {
    return {}
  }
}

// probe asks by plain HTTP why a handshake failed, because a WebSocket does not say. It returns undefined if HTTP does not either.
async function probe(address, token) {
  const url = new URL(address)
  url.protocol = address.protocol === "wss:" ? "https:" : "http:"
  try {
    const response = await fetch(url, {
      headers: token === undefined ? {} : { Authorization: `Bearer ${token}` },
      redirect: "error",
      cache: "no-store",
      signal: AbortSignal.timeout(PROBE_WAIT),
    })
    const { error } = await response.json()
    // "websocket: …" means that only the handshake is missing: the server would accept the client.
    if (typeof error?.code !== "string" || String(error.message).startsWith("websocket: ")) return undefined
    return refusal({ error })
  } catch {
    return undefined
  }
}

// problemOf returns an HTTP answer as an error. If it is no problem document, a proxy sent it, perhaps while servers
// restart: if the lobby worked before, another attempt may succeed.
async function problemOf(response, before) {
  const { code, detail, retry } = await response.json().catch(() => ({}))
  if (typeof code === "string") return new RoomdError(code, `${code}: ${detail}`, { retry: retry === true })
  const retried = before || response.status >= 500 || response.status === 429
  return new RoomdError("bad_request", `the server answers with HTTP ${response.status}`, { retry: retried })
}

// textOf returns a frame as text, without the id, since a program may change its data while the request waits.
function textOf(frame) {
  const noTime = [NaN, Infinity, -Infinity] // JSON would make null of these
  if ([frame, frame.actions ?? []].flat().some((action) => noTime.includes(action?.in))) throw new RoomdError("bad_request", "in: must be a number of ms, or null, which cancels the timer")
  let text
  try {
    text = JSON.stringify(frame)
  } catch (error) {
    throw new RoomdError("bad_request", `${frame.action}: ${error.message}`, { cause: error })
  }
  const size = new TextEncoder().encode(text).length + 24 // with the id
  if (size > LONGEST_FRAME) throw new RoomdError("too_large", `${frame.action}: makes a frame of ${size} bytes, the limit is ${LONGEST_FRAME}`)
  return text
}

// condition returns a request's fields for the version that the caller expects. It refuses a value that is no version,
// because the request would then be unconditional.
function condition(expect, epoch) {
  if (expect === undefined) return {}
  const position = typeof expect === "number" ? { version: expect, epoch } : expect
  if (typeof position?.version !== "number") throw new RoomdError("bad_request", "expect: must be a version, or have one")
  return { expect: position.version, ...(position.epoch && { epoch: position.epoch }) }
}

const position = ({ epoch, version }) => ({ epoch, version })

// nothingElse refuses options that a call does not have: otherwise nobody would notice a misspelled one.
function nothingElse(call, rest) {
  const [name] = Object.keys(rest)
  if (name !== undefined) throw new RoomdError("bad_request", `${call}: there is no option ${name}`)
}

export class Room {
  #mirror
  #session

  constructor(mirror, session) {
    if (!(mirror instanceof Mirror)) throw new TypeError("a Room is made by client.join and client.watch")
    this.#mirror = mirror
    this.#session = session
  }

  get id() { return this.#mirror.id }
  get epoch() { return this.#mirror.epoch }
  get version() { return this.#mirror.version }
  get users() { return this.#mirror.users }
  get data() { return this.#mirror.data }
  get settings() { return this.#mirror.settings }
  get timers() { return this.#mirror.timers }
  get host() { return this.#mirror.host }
  get private() { return this.user(this.#session.user)?.private }
  get seat() { return this.#mirror.seat }
  get member() { return this.#mirror.member }
  get watching() { return this.#mirror.watching }
  get error() { return this.#mirror.error }

  user(name) {
    return this.users.find(({ user }) => user === name)
  }

  ready(value) {
    return this.#ask({ action: "ready", value })
  }

  async set(data, { expect, ...rest } = {}) {
    nothingElse("set", rest)
    return this.#ask({ action: "set", data, ...condition(expect, this.epoch) })
  }

  async setMember(data, { expect, ...rest } = {}) {
    nothingElse("setMember", rest)
    return this.#ask({ action: "set", scope: "member", data, ...condition(expect, this.epoch) })
  }

  async setPrivate(data, { expect, ...rest } = {}) {
    nothingElse("setPrivate", rest)
    return this.#ask({ action: "set", scope: "private", data, ...condition(expect, this.epoch) })
  }

  async update(change) {
    let { epoch, version, data } = this
    for (;;) {
      const next = await change(data)
      if (next === undefined) return undefined
      try {
        await this.set(next, { expect: { epoch, version } })
        return next
      } catch (error) {
        if (error.code !== "conflict") throw error
        ;({ epoch, version, data } = error)
      }
    }
  }

  async timer(name, ms, { then, expect, ...rest } = {}) {
    nothingElse("timer", rest)
    return this.#ask({ action: "timer", name, in: ms, ...(then && { then }), ...condition(expect, this.epoch) })
  }

  async say(message, { to, ...rest } = {}) {
    nothingElse("say", rest)
    return this.#ask({ action: "say", ...(typeof message === "string" ? { text: message } : { data: message?.data }), ...(to && { to }) })
  }

  async propose(move) {
    return this.#ask({ action: "say", data: move, to: [] })
  }

  async leave() {
    if (!this.member) return
    const apply = (reply) => this.#session.left(this.id, this.#mirror, reply)
    const lost = await this.#session.request({ action: "leave", room: this.id }, { apply, errors: ["not_member", "unknown"] })
    if (lost) throw lost
  }

  async unwatch() {
    if (!this.watching) return
    await this.#session.request({ action: "unwatch", room: this.id }, { apply: () => this.#session.mirrors.get(this.id)?.quit("unwatched") })
  }

  [Symbol.asyncIterator]() {
    return new Reader(this.#mirror)
  }

  async #ask(frame) {
    if (this.error) throw this.error
    const reply = await this.#session.request({ room: this.id, ...frame })
    await this.#mirror.reached(reply)
    return position(reply)
  }
}

export class Client extends EventTarget {
  #session

  constructor(session) {
    if (!(session instanceof Session)) throw new TypeError("a Client is made by connect")
    super()
    this.#session = session
  }

  get state() { return this.#session.state }
  get user() { return this.#session.user }
  get address() { return this.#session.address }
  get error() { return this.#session.error }
  get rooms() { return this.#session.rooms }

  async join(id, { seat, history, signal, ...rest } = {}) {
    nothingElse("join", rest)
    return this.#session.request({ action: "join", room: id, seat, history }, { signal, apply: (reply) => this.#session.entered("join", reply, history) })
  }

  async match(labels, { settings, party, users, signal, ...rest } = {}) {
    nothingElse("match", rest)
    const key = party ? undefined : Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("")
    return this.#session.request({ action: "match", labels, settings, party, users, key }, { signal, apply: (reply) => this.#session.entered("match", reply) })
  }

  async watch(id, { history, signal, ...rest } = {}) {
    nothingElse("watch", rest)
    return this.#session.request({ action: "watch", room: id, history }, { signal, apply: (reply) => this.#session.entered("watch", reply, history) })
  }

  lobby(query, { signal, ...rest } = {}) {
    nothingElse("lobby", rest)
    return this.#session.lobby(query, signal)
  }

  async users(id) {
    const list = await this.#session.request({ action: "users", room: id })
    const { epoch, version, settings = NO_SETTINGS, host, data, timers } = list
    return freeze({ epoch, version, users: usersOf(list), settings, host, data, timers: endsOf(timers) })
  }

  async kick(id, user, { text, ban, ...rest } = {}) {
    nothingElse("kick", rest)
    return position(await this.#session.request({ action: "kick", room: id, user, text, ban }))
  }

  async swap(id, users) {
    return position(await this.#session.request({ action: "swap", room: id, users }))
  }

  async shuffle(id) {
    return position(await this.#session.request({ action: "shuffle", room: id }))
  }

  async txn(id, actions, { expect, ...rest } = {}) {
    nothingElse("txn", rest)
    const epoch = this.rooms.get(id)?.epoch
    return position(await this.#session.request({ action: "txn", room: id, actions, ...condition(expect, epoch) }))
  }

  async closeRoom(id) {
    return position(await this.#session.request({ action: "close", room: id }))
  }

  async configure(id, settings, { expect, ...rest } = {}) {
    nothingElse("configure", rest)
    const epoch = this.rooms.get(id)?.epoch
    return position(await this.#session.request({ action: "configure", room: id, settings, ...condition(expect, epoch) }))
  }

  async setPrivateOf(id, user, data, { expect, ...rest } = {}) {
    nothingElse("setPrivateOf", rest)
    const epoch = this.rooms.get(id)?.epoch
    return position(await this.#session.request({ action: "set", room: id, scope: "private", user, data, ...condition(expect, epoch) }))
  }

  close() {
    return this.#session.close()
  }
}

export async function connect(url, options = {}) {
  const session = new Session(url, options)
  await session.start(options.signal)
  return session.client
}
