/**
 * roomd.js: the client of roomd, for browsers and for Node from version 20 on.
 *
 *     import { connect } from "./roomd.js"
 *
 *     const client = await connect("/ws", { user: "ada" })
 *     const room = await client.join("table-7")
 *     for await (const change of room) render(room)
 *
 * A client is one user, with one connection at a time. When the connection ends, it makes another one and
 * joins its rooms again. See README.md for the model.
 */

/** The server's error codes: see PROTOCOL.md. */
export type ServerCode =
  | "bad_request"
  | "unknown_action"
  | "unauthorized"
  | "forbidden"
  | "room_full"
  | "closed"
  | "banned"
  | "conflict"
  | "seat_taken"
  | "duplicate_user"
  | "not_member"
  | "rate_limited"
  | "too_large"
  | "busy"
  | "unavailable"
  | "unknown"
  | "internal"

/**
 * The client's own codes:
 *
 * - `timeout`: the request was not sent in time, so nothing was done;
 * - `left`, `unwatched`, `lost`: why a room has ended;
 * - `client_closed`: the program called `close`, or aborted `connect`;
 * - `replaced`: newer sessions of the user took over all rooms of this one (close code 4001);
 * - `disconnected`: the server ended the connection because of a fault of the client (`closeCode` says which).
 *
 * The client also uses three of the server's codes. `unknown`: the connection broke before the reply came, so the
 * request was done or was not. `bad_request` and `too_large`: the client does not send this, such as a frame that
 * is too long, or a call with an option that it does not have.
 */
export type ClientCode = "timeout" | "left" | "unwatched" | "lost" | "client_closed" | "replaced" | "disconnected"

/** A newer server may send other codes. */
export type ErrorCode = ServerCode | ClientCode | (string & {})

/** Why a member has left. A newer server may send other reasons. */
export type Reason = "left" | "timeout" | "node" | "kicked" | "closed" | "moved" | (string & {})

/** What the client could not do, and why. Programs decide by `code`. */
export class RoomdError extends Error {
  constructor(code: ErrorCode, message?: string, details?: Partial<RoomdError>)
  code: ErrorCode
  /** Whether the same request may succeed soon. */
  retry: boolean
  /** With `conflict`: the current data. Undefined if there is none. */
  data?: unknown
  /** With `conflict`: the epoch in which `version` counts. */
  epoch?: string
  /** With `conflict`: the version that the room has now. */
  version?: number
  /** With `lost`: a reason, `replaced` (by a newer session of the user), or the code of the server's refusal. */
  reason?: Reason | ServerCode
  /** With `lost`: the text of the kick, if there is one. */
  text?: string
  /** With `lost` and the reason `moved`: the room in which the user has a seat now. `client.join(to)` enters it. */
  to?: string
  /** With `replaced` and `disconnected`: the close code of the WebSocket. */
  closeCode?: number
}

/** A constructor of WebSockets like that of browsers, such as the one of the package `ws`. */
export interface WebSocketConstructor {
  new (url: string, protocols?: string | string[]): object
}

export interface ConnectOptions {
  /** The user's name, sent as `?user=`: for servers without a key for tokens, which trust it. */
  user?: string
  /**
   * The token that says who the user is, for servers with a key. The client calls a function for each connection,
   * also of a lobby, and again after about 80 % of the token's time. It does not renew a string.
   */
  token?: string | (() => string | Promise<string>)
  /** Default: the global one, which Node has from version 22 on. In Node 20 set that of the package `ws`. */
  WebSocket?: WebSocketConstructor
  /** Its abort ends `connect`. It does nothing once `connect` has resolved. */
  signal?: AbortSignal
  /**
   * Called once, with the last error, if the first three attempts to connect fail: perhaps the server does not run
   * yet, or an address is wrong. The client goes on trying. Default: `console.warn`.
   */
  onUnreachable?: (error: Error) => void
  /** The most ms that a request waits for a connection, and that an attempt to connect takes. Default: 10,000. */
  timeout?: number
  /** Further attempt n, from 0 on, comes after a random time up to min(cap, base·2ⁿ) ms. Default: 250 and 5,000. */
  backoff?: { base?: number; cap?: number }
  /**
   * If the server is silent for `idle` ms, the client sends a ping. If the server stays silent for `timeout` ms
   * more, the client drops the connection. Default: 6,000 and 5,000.
   */
  heartbeat?: { idle?: number; timeout?: number }
}

/**
 * Connects to a server, or to one of several that share their rooms: first to a random one, after each failure
 * to the next. An address is `ws://HOST/ws`, `wss://HOST/ws`, `http://HOST`, `https://HOST` or, in a browser, a
 * path of the page's own server: `/ws`.
 *
 * The promise resolves when the client is connected. Until then the client goes on trying. The promise rejects with a
 * {@link RoomdError} if the server refuses the client and another attempt cannot succeed, with the error of `token`
 * if that throws, and with `signal.reason` on abort.
 */
export function connect(url: string | readonly string[], options?: ConnectOptions): Promise<Client>

/**
 * - `connecting`: the first connection is not made yet;
 * - `connected`;
 * - `degraded`: connected to a server that cannot reach Redis. Rooms stand still, and requests fail (`unavailable`);
 * - `reconnecting`: the connection broke, and the client tries to make another. Requests wait;
 * - `lost`: the client has ended for good. `client.error` says why.
 */
export type State = "connecting" | "connected" | "degraded" | "reconnecting" | "lost"

/** One user who stays connected, made by {@link connect}. It dispatches an event `state` when `state` has changed. */
export class Client extends EventTarget {
  private constructor()
  readonly state: State
  addEventListener(type: "state", listener: (event: Event) => void, options?: boolean | AddEventListenerOptions): void
  removeEventListener(type: "state", listener: (event: Event) => void, options?: boolean | EventListenerOptions): void
  /** The user's name, once it is known: from the options, the token, or the first join. */
  readonly user: string | undefined
  /** The address of the current connection, or of the latest attempt, without query. Undefined before the first. */
  readonly address: string | undefined
  /** Why the client is `lost`. Undefined until then. */
  readonly error: RoomdError | undefined
  /** The rooms of which the client is a member or that it watches, by id. */
  readonly rooms: ReadonlyMap<string, Room>

  /**
   * Makes the user a member of a room, in the given seat or any free one. A member that joins again keeps its seat.
   * There is one `Room` for each id: every join and watch returns the same object, until the room ends.
   * `history` asks for up to that many of the last messages that the room has kept. The room's first iteration yields
   * them after its first snapshot, with the versions at which they were said.
   * Rejects if the server refuses: `room_full`, `seat_taken`, `closed`, `banned`, `forbidden`, …
   */
  join<Data = any, MemberData = any>(id: string, options?: { seat?: number; history?: number; signal?: AbortSignal }): Promise<Room<Data, MemberData>>
  /**
   * Joins the fullest room that has the labels, perhaps among others, and a free seat. If there is none, it creates
   * a room with exactly these labels, and otherwise `settings`. Rejects like `join`, but never with `room_full`.
   *
   * With `party`, a room of which the user is a member, the user agrees to be moved to such a room. If all `users`,
   * other members of the party, have agreed to the same labels, it moves them and the user. The result is the room in
   * which the user is then: the table or, as long as somebody has not agreed, the party.
   */
  match<Data = any, MemberData = any>(labels: Labels, options?: { settings?: Settings; party?: string; users?: string[]; signal?: AbortSignal }): Promise<Room<Data, MemberData>>
  /** Follows the room without joining it. `history` is as for {@link join}. */
  watch<Data = any, MemberData = any>(id: string, options?: { history?: number; signal?: AbortSignal }): Promise<Room<Data, MemberData>>
  /** Returns the room at this moment, without joining or watching it. */
  users<Data = any, MemberData = any>(id: string): Promise<Listing<Data, MemberData>>

  /**
   * Follows the list of rooms: `for await (const { rooms, stale } of client.lobby({ free: 1 }))` yields the current
   * list, and then a new one whenever it has changed. Each list is complete. A slow reader skips lists and gets the
   * newest. The list comes by HTTP, on a connection of its own. When that ends, the client asks the next address.
   *
   * `break` ends the iteration, and so does `return()`, even while `next()` waits. The iteration throws a
   * {@link RoomdError} if the server refuses it for good (such as `bad_request`, `unauthorized`) or the client has
   * ended; the error of `token` if that throws before the first list; and `signal.reason` on abort.
   */
  lobby(query?: LobbyQuery, options?: { signal?: AbortSignal }): AsyncIterableIterator<Lobby>

  /** Removes a user. `text` says why; `ban` keeps the user out for that many seconds. For admins and the host. */
  kick(id: string, user: string, options?: { text?: string; ban?: number }): Promise<Position>
  /** Exchanges the seats of two members. For admins and the host. */
  swap(id: string, users: readonly [string, string]): Promise<Position>
  /** Permutes the seats of the members at random. For admins and the host. */
  shuffle(id: string): Promise<Position>
  /**
   * Does several actions in one version, all or none: 1 to 32 requests as in PROTOCOL.md, without `id` and `room`,
   * with the actions `set`, `timer`, `say`, `kick`, `swap`, `shuffle`, `configure` or `close`. With `expect`, rejects
   * with `conflict` if the data or a timer has changed since that version. For admins.
   */
  txn(id: string, actions: readonly { action: string; [field: string]: unknown }[], options?: { expect?: Expect }): Promise<Position>
  /** Removes all members from the room, and keeps everybody out. For admins and the host. */
  closeRoom(id: string): Promise<Position>
  /** Replaces all settings; those left out become zero. With `expect`, rejects with `conflict` unless the room has that
   *  version. For admins and the host, who cannot change `keep`, `data`, `history`, `grace` and `host`. */
  configure(id: string, settings: Settings, options?: { expect?: Expect }): Promise<Position>

  /** Replaces the private data of a member, like {@link Room.setPrivate}. For admins. */
  setPrivateOf(id: string, user: string, data: any, options?: { expect?: Expect }): Promise<Position>

  /**
   * Ends the client. If it is connected, it leaves all rooms. Waiting requests and iterations over a {@link lobby}
   * reject with `client_closed`; iterations over rooms end. Resolves when the server has answered, or after 2 s.
   */
  close(): Promise<void>
}

/** Selects and sorts rooms of the lobby. An empty query selects all, by id. */
export interface LobbyQuery {
  /** The start of the ids. */
  readonly prefix?: string
  /** A part of the ids. */
  readonly contains?: string
  /** Labels that the rooms have, perhaps among others. */
  readonly labels?: Labels
  /** The least number of free seats. Above 0 it selects only rooms that are not closed. */
  readonly free?: number
  /** The order: by id, the fullest first, or the newest first. Default: `id`. */
  readonly sort?: "id" | "members" | "age"
}

/** The rooms that a {@link LobbyQuery} asks for, at one moment. */
export interface Lobby {
  readonly rooms: readonly LobbyRoom[]
  /** Whether the client has lost its server, and keeps trying: `rooms` is then the last list. */
  readonly stale: boolean
}

/** A room in the lobby. */
export interface LobbyRoom {
  /** The id, for `client.join`. */
  readonly room: string
  /** The number of members. */
  readonly count: number
  /** The number of seats; 0 means no limit. */
  readonly capacity: number
  /** The number of free seats. */
  readonly free: number
  /** Whether nobody may enter. */
  readonly closed: boolean
  /** Undefined if the room has none. */
  readonly labels?: Labels
  /** When the lobby got the room, in ms since 1970; undefined for a room that is only just there. */
  readonly since?: number
}

/** A version, and the epoch in which it counts. Versions of two epochs cannot be compared. */
export interface Position {
  readonly epoch: string
  readonly version: number
}

/** A version: with its epoch, or as a number in the room's current epoch. */
export type Expect = number | Position

/** A member of a room. */
export interface User<MemberData = any> {
  readonly user: string
  readonly seat: number
  /** True if the user has no connection at the moment. The server keeps the seat for a while. */
  readonly away?: boolean
  readonly ready?: boolean
  readonly data?: MemberData
  /** Data that only this user's sessions and admins get. Undefined for others, and if there is none. */
  readonly private?: any
}

/** The settings of a room. Those left out are zero. */
export interface Settings {
  /** The number of seats; 0 means no limit. */
  readonly capacity?: number
  /** Whether nobody may enter. */
  readonly closed?: boolean
  /** Whether the room outlives its last member. */
  readonly keep?: boolean
  /** Who may set the room's data, besides admins. Default: `members`. */
  readonly data?: "members" | "admins"
  /** How many messages the room keeps for users who join or come back; at most 100. */
  readonly history?: number
  /** For how many ms a user without a connection keeps the seat, at most 30 days. Default: what the nodes give. */
  readonly grace?: number
  /** Who may watch the room and list its users, besides admins. Default: `all` who are not banned. */
  readonly watch?: "all" | "members"
  /** Labels by which the lobby and `match` find the room. */
  readonly labels?: Labels
  /** The host, who may kick, close and configure: nobody, or the member who has sat longest. Default: `none`. */
  readonly host?: "none" | "longest"
}

/** Up to 8 names with values, such as {"mode": "ranked"}. */
export type Labels = Readonly<Record<string, string>>

/** When each timer of a room fires, in the time of `performance.now()`, by name. */
export type Timers = Readonly<Record<string, number>>

/** A timer's effect. `close` and `kick` are for admins. `data` replaces the room's, unless that has changed since. */
export type Then<Data = any> = { readonly close: true } | { readonly kick: string } | { readonly data: Data | null }

/** A room at one version. */
export interface Listing<Data = any, MemberData = any> extends Position {
  /** In the order of their seats. */
  readonly users: readonly User<MemberData>[]
  readonly settings: Settings
  /** The member who is the host. Undefined if there is none. */
  readonly host: string | undefined
  /** Undefined if the room has none. */
  readonly data: Data | undefined
  readonly timers: Timers
}

/**
 * The client's copy of a room of which it is a member or that it watches. The copy follows the server, also across
 * reconnects, and always shows the room at one version. All values in it are frozen, and a change replaces them: so
 * `===` tells whether `users`, `data`, `settings` or `timers` have changed.
 *
 * `for await (const change of room)` yields the changes: first one of type `snapshot`, which has the room, and then
 * every later change exactly once, in order. Some versions have no change for this user, such as a message for
 * others. When the program gets a change, the room shows it, and perhaps later ones. Iterations are independent of
 * each other. If one lags by more than 1,024 changes, a `snapshot` replaces them. An iteration ends when the room
 * has ended; `error` then says why. The loop may call anything, also `leave` and `close`.
 *
 * Methods that send a request wait for a connection, and reject with a {@link RoomdError}. When they resolve, the
 * room shows their change. If the server refuses a request as too fast, the client sends it again, up to 30 times in
 * all: where the order of requests matters, await each before the next. If the connection breaks before the reply,
 * the client repeats `ready`, `leave` and `unwatch`, which reject with `unknown` if no reply comes in time. Other
 * methods then reject with `unknown` at once, unless the node restarts (1012): the client repeats them, too.
 */
export class Room<Data = any, MemberData = any> implements Listing<Data, MemberData> {
  private constructor()
  readonly id: string
  /** `""`, with version 0, before the room's first commit. */
  readonly epoch: string
  readonly version: number
  readonly users: readonly User<MemberData>[]
  readonly data: Data | undefined
  readonly settings: Settings
  readonly timers: Timers
  readonly host: string | undefined
  /** The user's own private data as a member, which other members do not get. Undefined if there is none. */
  readonly private: any
  /** The client's own seat. Undefined if it is not a member. */
  readonly seat: number | undefined
  readonly member: boolean
  readonly watching: boolean
  /** Why the room has ended: the client is no member and does not watch, or has ended. Undefined until then. */
  readonly error: RoomdError | undefined

  /** Returns the member of that name, or undefined. */
  user(name: string): User<MemberData> | undefined
  /** Says whether the user is ready. */
  ready(value: boolean): Promise<Position>
  /** Replaces the room's data; `null` removes it. With `expect`, rejects with `conflict` if it has changed since then.
   *  Data is JSON, as it is at the call: NaN and Infinity become `null`. The server refuses numbers that a double
   *  cannot hold; send those as strings. */
  set(data: Data | null, options?: { expect?: Expect }): Promise<Position>
  /** Like `set`, for the user's own data as a member. */
  setMember(data: MemberData | null, options?: { expect?: Expect }): Promise<Position>
  /** Like `set`, for data of the member that only the user's own sessions and admins get. */
  setPrivate(data: any, options?: { expect?: Expect }): Promise<Position>
  /**
   * Replaces the room's data by the result of `change`. If somebody else changes the data meanwhile, it calls
   * `change` again with the new data, so no change is lost. `change` returns a new value, because the old one is
   * frozen, or undefined to stop. Resolves to the data that was written, or to undefined if `change` stopped.
   */
  update(change: (old: Data | undefined) => Data | null | undefined | Promise<Data | null | undefined>): Promise<Data | null | undefined>
  /**
   * Sets a timer of the room, which fires once, after `ms` (at most 90 days). It replaces the timer of the same
   * name; `null` cancels that. Users who may set the room's data may set its timers, at most 8. With `expect`, rejects
   * with `conflict` if the data or a timer has changed since. All readers get a `countdown`, and a `timer` at the end.
   */
  timer(name: string, ms: number | null, options?: { then?: Then<Data>; expect?: Expect }): Promise<Position>
  /** Sends a message to all who get the room's events, or only to the sender and `to`; if empty, see {@link propose}. */
  say(message: string | { data: unknown }, options?: { to?: readonly string[] }): Promise<Position>
  /** Sends a move to a referee: a message with that data. Only admins who watch get it, not even the sender. */
  propose(move: unknown): Promise<Position>
  /**
   * Ends the membership and frees the seat. The room goes on if the client watches it. Rejects with `lost` if the
   * server had ended the membership before. If that was by a move, the user keeps the seat in the room `to`. After
   * `unknown`, too, the membership has ended, but the seat may not be free before the connection ends.
   */
  leave(): Promise<void>
  /** Stops watching. The room goes on if the client is a member. */
  unwatch(): Promise<void>

  [Symbol.asyncIterator](): AsyncIterableIterator<Change<Data, MemberData>>
}

/** One change of a room, with the epoch and version after it. Ignore other types, which a newer server may send. */
export type Change<Data = any, MemberData = any> = Position & (
  /** The room at this version: at the start of an iteration, after a reconnect, and where changes are missing. */
  | { readonly type: "snapshot"; readonly users: readonly User<MemberData>[]; readonly settings: Settings; readonly host: string | undefined; readonly data: Data | undefined; readonly timers: Timers; readonly seat: number | undefined }
  /** The client is no longer a member, although it did not leave; or the server does not let it watch any more. */
  | { readonly type: "lost"; readonly reason: Reason | "replaced" | ServerCode; readonly text?: string; readonly to?: string }
  /** The user has joined. `away`: the seat is reserved, and the user has no connection yet. */
  | { readonly type: "join"; readonly user: string; readonly seat: number; readonly away?: boolean }
  /** The user left. `reason`: `left`, `timeout`, `node`, `kicked` (`text` says why), `closed` or `moved` (`to` says where). */
  | { readonly type: "leave"; readonly user: string; readonly seat: number; readonly reason: Reason; readonly text?: string; readonly to?: string }
  /** The user has the seat `seat` now. Later changes of the same version move the member who had it. */
  | { readonly type: "seat"; readonly user: string; readonly seat: number }
  /** The user has lost the connection, or has one again. */
  | { readonly type: "away" | "back"; readonly user: string; readonly seat: number }
  /** The user is ready or not, or has other data, null for none. Fields left out are as before. */
  | { readonly type: "member"; readonly user: string; readonly seat: number; readonly ready?: boolean; readonly data?: MemberData | null }
  /** The member has other private data, null for none. Only that user and admins get this change. */
  | { readonly type: "private"; readonly user: string; readonly seat: number; readonly data: any }
  /** The room has other settings. */
  | { readonly type: "settings"; readonly settings: Settings }
  /** The user is the host now. Without `user` there is no host any more. */
  | { readonly type: "host"; readonly user?: string }
  /** The room has other data. `user` has set it, or if undefined the API. */
  | { readonly type: "data"; readonly user?: string; readonly data?: Data }
  /** `user`, or if undefined the API, has set a timer: `in` is the ms that it had left, `ends` when it fires by
   *  `performance.now()`. If `in` is null, the timer was cancelled. */
  | { readonly type: "countdown"; readonly user?: string; readonly name: string; readonly in: number | null; readonly ends?: number }
  /** A timer has fired. Its effect follows in the same version. */
  | { readonly type: "timer"; readonly name: string }
  /** A message. `to`: only for these users and the sender, or if empty for admins who watch. */
  | { readonly type: "message"; readonly user?: string; readonly text?: string; readonly data?: any; readonly to?: readonly string[] }
)
