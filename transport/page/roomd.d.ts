/**
 * roomd.js: the client of roomd, for browsers and for Node from version 20 on.
 *
 *     import { connect } from "./roomd.js"
 *
 *     const client = await connect("/ws", { user: "ada" })
 *     const room = await client.join("table-7")
 *     for await (const change of room) render(room)
 *
 * A client is one user. It has one connection at a time, connects again by itself, and joins its
 * rooms again. See README.md for the model.
 */

/** The codes of errors with which a server refuses a request: see PROTOCOL.md. */
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
 * - `client_closed`: the program called `close`, or the attempt to connect was given up;
 * - `replaced`: newer sessions of the user took over all rooms of this one (close code 4001);
 * - `disconnected`: the server ended the connection over a fault of the client (`closeCode` says which).
 *
 * It also says `unknown`, as the server does: the connection broke before the reply came, and the request was
 * done, or it was not (where a node restarts the client knows, and sends it again); and `bad_request` and `too_large` for what it does not send at all, such as a URL without a scheme,
 * or an option that the call does not have.
 */
export type ClientCode = "timeout" | "left" | "unwatched" | "lost" | "client_closed" | "replaced" | "disconnected"

/** A newer server may send other codes. */
export type ErrorCode = ServerCode | ClientCode | (string & {})

/** Why a member has left. A newer server may send others. */
export type Reason = "left" | "timeout" | "node" | "kicked" | "closed" | "moved" | (string & {})

/** What the client could not do, and why. Programs decide by `code`. */
export class RoomdError extends Error {
  constructor(code: ErrorCode, message?: string, details?: Partial<RoomdError>)
  code: ErrorCode
  /** Whether the same request may succeed soon, without anybody's doing. */
  retry: boolean
  /** With `conflict`: the data that there is now. Undefined if there is none. */
  data?: unknown
  /** With `conflict`: the epoch in which `version` counts. */
  epoch?: string
  /** With `conflict`: the version that the room has now. */
  version?: number
  /** With `lost`: `kicked`, `moved`, `closed`, `replaced` (by a newer session of the user), `left`, or the error code for which the seat was lost. */
  reason?: Reason | ServerCode
  /** With `lost`: what the admin said, if anything. */
  text?: string
  /** With `lost` and the reason `moved`: the room where the user is now. Call `client.join(to)`. */
  to?: string
  /** With `replaced` and `disconnected`: the close code of the WebSocket. */
  closeCode?: number
}

/** A constructor of WebSockets as browsers have it. That of the package `ws` is one. */
export interface WebSocketConstructor {
  new (url: string, protocols?: string | string[]): object
}

export interface ConnectOptions {
  /** Sent as `?user=`, for servers without a key, which believe it. */
  user?: string
  /**
   * The token that says who the user is, for servers with a key. A function is called for each
   * connection, also of a lobby, and again when about 80 % of the token's time are over. A string is not renewed.
   */
  token?: string | (() => string | Promise<string>)
  /** Default: the global one. Node has one from version 22 on; before, give that of the package `ws`. */
  WebSocket?: WebSocketConstructor
  /** Its abort ends the attempt to connect. It does nothing once `connect` has resolved. */
  signal?: AbortSignal
  /**
   * Called once, if the first three attempts to connect fail, with what says so: a server may not be started yet, or an address be
   * wrong. The client goes on trying. Default: `console.warn`.
   */
  onUnreachable?: (error: Error) => void
  /** For how many ms a request waits for a connection, and how long one attempt to connect may take. Default: 10,000. */
  timeout?: number
  /** Before further attempt n, from 0 on, the client waits for a random time up to min(cap, base·2ⁿ). In ms. Default: 250 and 5,000. */
  backoff?: { base?: number; cap?: number }
  /**
   * If nothing has come for `idle` ms, the client sends a ping. If nothing comes for another `timeout` ms,
   * it gives the connection up. Default: 6,000 and 5,000.
   */
  heartbeat?: { idle?: number; timeout?: number }
}

/**
 * Connects to a server, or to one of several that share their rooms. The first attempt goes to a random
 * one, each further attempt to the next. An address is `ws://HOST/ws`, `wss://HOST/ws`, `http://HOST`,
 * `https://HOST` or, in a browser, a path of the page's own server: `/ws`.
 *
 * The promise resolves when the client is connected. It goes on trying until then, tells `onUnreachable` after three attempts, and rejects with a
 * {@link RoomdError} if the server refuses the client for a reason that no repetition mends, with the
 * error of `token` if that throws, and with `signal.reason` on abort.
 */
export function connect(url: string | readonly string[], options?: ConnectOptions): Promise<Client>

/**
 * - `connecting`: for the first time;
 * - `connected`;
 * - `degraded`: connected, to a server that cannot reach Redis. Rooms show what was; requests are refused as `unavailable`;
 * - `reconnecting`: the connection broke, and the client tries again. Requests wait;
 * - `lost`: ended for good. `client.error` says why.
 */
export type State = "connecting" | "connected" | "degraded" | "reconnecting" | "lost"

/** One user. Made by {@link connect}. It dispatches an event `state` whenever `state` has changed. */
export class Client extends EventTarget {
  private constructor()
  readonly state: State
  addEventListener(type: "state", listener: (event: Event) => void, options?: boolean | AddEventListenerOptions): void
  removeEventListener(type: "state", listener: (event: Event) => void, options?: boolean | EventListenerOptions): void
  /** The user's name, as far as it is known: from the options, the token, or the first join. */
  readonly user: string | undefined
  /** Where the present connection leads, or the latest attempt to make one, without query. Undefined before the first. */
  readonly address: string | undefined
  /** Why the client is `lost`. Undefined until then. */
  readonly error: RoomdError | undefined
  /** The rooms that the client is in or watches, by id. */
  readonly rooms: ReadonlyMap<string, Room>

  /**
   * Makes the user a member of a room, on the seat given or on any. Who is a member already keeps the seat.
   * There is one `Room` per id: the same object comes back each time, also where the client watches it.
   * With `history` it asks for up to so many of the last messages that the room has kept: the first iteration has them behind its
   * first snapshot, with the versions at which they were said.
   * Rejects if the server refuses: `room_full`, `seat_taken`, `closed`, `banned`, `forbidden`, …
   */
  join<Data = any, MemberData = any>(id: string, options?: { seat?: number; history?: number; signal?: AbortSignal }): Promise<Room<Data, MemberData>>
  /**
   * Joins the fullest room that has the labels, perhaps among others, and a free seat; or, if there is none, a new one with
   * these settings. It rejects as join does, but never with `room_full`.
   */
  match<Data = any, MemberData = any>(labels: Labels, options?: { settings?: Settings; signal?: AbortSignal }): Promise<Room<Data, MemberData>>
  /** Gets the room's changes without being a member. `history` is as of {@link join}. */
  watch<Data = any, MemberData = any>(id: string, options?: { history?: number; signal?: AbortSignal }): Promise<Room<Data, MemberData>>
  /** The room at this moment, without joining or watching. */
  users<Data = any, MemberData = any>(id: string): Promise<Listing<Data, MemberData>>

  /**
   * Follows the list of rooms: `for await (const { rooms, stale } of client.lobby({ free: 1 }))` gives the list as it is, and then
   * whenever it differs, always whole. One that is over before the loop looks is left out, so a slow reader is
   * shown the newest. When the connection ends (it has one of its own, by HTTP) the client asks the next of its addresses, with a new token.
   *
   * `break` ends the iteration, and so does `return()` at any other moment. It throws a {@link RoomdError} if the server refuses it for good
   * (such as `bad_request`, `unauthorized`) or the client has ended, the error of `token` if that throws before the first list, and
   * `signal.reason` on abort.
   */
  lobby(query?: LobbyQuery, options?: { signal?: AbortSignal }): AsyncIterableIterator<Lobby>

  /** Makes a user leave, for admins and the host. `text` says why; `ban` is for how many seconds the user cannot come in again. */
  kick(id: string, user: string, options?: { text?: string; ban?: number }): Promise<Position>
  /** Has two members exchange their seats. For admins and the host. */
  swap(id: string, users: readonly [string, string]): Promise<Position>
  /** Gives each member the seat of another one, at random. For admins and the host. */
  shuffle(id: string): Promise<Position>
  /**
   * Does several things in one version, all or none: 1 to 32 requests as PROTOCOL.md has them, without `id` and `room`, with the actions
   * `set`, `timer`, `say`, `kick`, `swap`, `shuffle`, `configure` and `close`. With `expect` only if neither the data nor a timer has
   * changed since. For admins.
   */
  txn(id: string, actions: readonly { action: string; [field: string]: unknown }[], options?: { expect?: Expect }): Promise<Position>
  /** Makes everybody leave, and lets nobody in. For admins and the host. */
  closeRoom(id: string): Promise<Position>
  /** Replaces all settings of the room; what is left out is zero. With `expect` only if the room has that very version. For admins, and for the host,
   *  who sends `keep`, `data`, `history` and `host` as they are. */
  configure(id: string, settings: Settings, options?: { expect?: Expect }): Promise<Position>

  /** Replaces the private data of a member. For admins. */
  setPrivateOf(id: string, user: string, data: any, options?: { expect?: Expect }): Promise<Position>

  /**
   * Leaves all rooms and ends the connection. Whatever waits rejects with `client_closed`, also an iteration of {@link lobby}; those of rooms end.
   * Resolves when the server has answered, or after 2 s.
   */
  close(): Promise<void>
}

/** Which rooms of the lobby to follow, and in which order. Without anything: all, by id. */
export interface LobbyQuery {
  /** With what the ids begin. */
  readonly prefix?: string
  /** What the ids have somewhere. */
  readonly contains?: string
  /** What the rooms have, perhaps among other labels. */
  readonly labels?: Labels
  /** How many free seats there are at least, in rooms that are not closed. */
  readonly free?: number
  /** By id, the fullest first, or the newest first. Default: `id`. */
  readonly sort?: "id" | "members" | "age"
}

/** The rooms that a {@link LobbyQuery} asks for, at one moment. */
export interface Lobby {
  readonly rooms: readonly LobbyRoom[]
  /** No server answers any more, and the client goes on trying: `rooms` are what was. */
  readonly stale: boolean
}

/** A room in the lobby. */
export interface LobbyRoom {
  /** The id, for `client.join`. */
  readonly room: string
  /** How many members there are. */
  readonly count: number
  /** How many seats there are; 0 is as many as there can be. */
  readonly capacity: number
  /** How many of them are free. */
  readonly free: number
  /** Nobody comes in. */
  readonly closed: boolean
  /** Undefined for none. */
  readonly labels?: Labels
  /** When the lobby first had the room, in ms since 1970; undefined in its first moment. */
  readonly since?: number
}

/** A version, and the epoch in which it counts. Versions of two epochs cannot be compared. */
export interface Position {
  readonly epoch: string
  readonly version: number
}

/** A version of the room's present epoch, or of another one. */
export type Expect = number | Position

/** A member of a room. */
export interface User<MemberData = any> {
  readonly user: string
  readonly seat: number
  /** True if the user has no connection at the moment. The seat is kept for a while. */
  readonly away?: boolean
  readonly ready?: boolean
  readonly data?: MemberData
  /** What only this user is shown, by whatever session, and admins. Undefined for others, and if there is none. */
  readonly private?: any
}

/** What is decided about a room. What is missing is zero. */
export interface Settings {
  /** How many seats there are; 0 is as many as there can be. */
  readonly capacity?: number
  /** Nobody comes in. */
  readonly closed?: boolean
  /** The room outlives its last member. */
  readonly keep?: boolean
  /** Who sets the room's data, besides admins; without it, `members`. */
  readonly data?: "members" | "admins"
  /** How many messages the room keeps, for those who join or come back; at most 100. */
  readonly history?: number
  /** Who watches the room and lists its users, besides admins; without it, `all` who are not banned. */
  readonly watch?: "all" | "members"
  /** What the room is for, by which the lobby finds it. */
  readonly labels?: Labels
  /** Who is the host, who may kick, close and configure: nobody, or the member who has sat longest; without it, `none`. */
  readonly host?: "none" | "longest"
}

/** Up to 8 names with values, such as {"mode": "ranked"}. */
export type Labels = Readonly<Record<string, string>>

/** The timers of a room: by name, when each fires by `performance.now()`. */
export type Timers = Readonly<Record<string, number>>

/** What a timer does when it fires: `close` and `kick` are for admins. `data` becomes the room's, unless that has changed since. */
export type Then<Data = any> = { readonly close: true } | { readonly kick: string } | { readonly data: Data | null }

/** A room at one version. */
export interface Listing<Data = any, MemberData = any> extends Position {
  /** In the order of their seats. */
  readonly users: readonly User<MemberData>[]
  readonly settings: Settings
  /** The member who is the host. Undefined if nobody is. */
  readonly host: string | undefined
  /** Undefined if the room has none. */
  readonly data: Data | undefined
  readonly timers: Timers
}

/**
 * The client's copy of a room that it is in or watches. It is kept up to date by itself, also over
 * reconnects, and always is what the room was at one version. All values in it are frozen: after a change there
 * are new ones, so `===` tells whether `users`, `data`, `settings` or `timers` have changed.
 *
 * `for await (const change of room)` gives the changes: at first one of type `snapshot`, which stands for
 * what there is, then each change behind it exactly once and in order. A version may pass without
 * a change, such as a message for others. The room has a change already when the program gets it, and may have later ones, too. Several iterations at once are independent. One that lags by more than 1,024 changes
 * gets a `snapshot` in their place. An iteration ends when the room does; `error` then says why. The loop may call
 * anything, also `leave` and `close`.
 *
 * Methods that ask the server for something wait for a connection, and reject with a {@link RoomdError}. What they did is
 * in the room when they resolve. What the server refuses because it comes too fast is sent again, 30 times at most: await a
 * request before the next where their order matters. `ready` and `leave` are sent
 * again after a reconnect if the reply is missing, and reject with `unknown` if there is none in time;
 * `set`, `setMember`, `setPrivate`, `update`, `timer` and `say` then reject with `unknown`, unless the node restarts (1012): what it has
 * not answered it has not begun, and all is sent again.
 */
export class Room<Data = any, MemberData = any> implements Listing<Data, MemberData> {
  private constructor()
  readonly id: string
  /** `""` and version 0 as long as nobody has ever joined. */
  readonly epoch: string
  readonly version: number
  readonly users: readonly User<MemberData>[]
  readonly data: Data | undefined
  readonly settings: Settings
  readonly timers: Timers
  readonly host: string | undefined
  /** The user's own private data as a member, which the others are not shown. Undefined if there is none. */
  readonly private: any
  /** The client's own seat. Undefined if it is not a member. */
  readonly seat: number | undefined
  readonly member: boolean
  readonly watching: boolean
  /** Why the room has ended, which is when the client neither is in it nor watches it. Undefined until then. */
  readonly error: RoomdError | undefined

  /** The member of that name. */
  user(name: string): User<MemberData> | undefined
  /** Says whether the user is ready. */
  ready(value: boolean): Promise<Position>
  /** Replaces the data of the room; `null` removes it. With `expect` only if nobody has changed it since, else rejects with `conflict`.
   *  Data is JSON, as it is at the call: NaN and Infinity become `null`. The server refuses numbers that a double cannot hold; send those as strings. */
  set(data: Data | null, options?: { expect?: Expect }): Promise<Position>
  /** Likewise for the user's own data as a member. */
  setMember(data: MemberData | null, options?: { expect?: Expect }): Promise<Position>
  /** Likewise for the user's private data as a member, which only the user, by whatever session, and admins are shown. */
  setPrivate(data: any, options?: { expect?: Expect }): Promise<Position>
  /**
   * Replaces the data of the room by what `change` makes of it, such that no change of another user is lost: if
   * somebody was faster, `change` is called again with what there is then. It returns a new value and must not
   * alter the old one, which is frozen; undefined means stop.
   * Resolves to the data that was written, or undefined if `change` stopped.
   */
  update(change: (old: Data | undefined) => Data | null | undefined | Promise<Data | null | undefined>): Promise<Data | null | undefined>
  /**
   * Sets one of the room's timers, which fires once after so many ms (at most 24 hours), in the place of one of that
   * name; `null` cancels it. Who may set the room's data may set its timers, at most 8. With `expect` only if neither
   * the data nor a timer has changed since. Everybody hears of a `countdown`, and when it fires of a `timer`.
   */
  timer(name: string, ms: number | null, options?: { then?: Then<Data>; expect?: Expect }): Promise<Position>
  /** Sends a message to all in the room, or to the users in `to` alone, and to this one; if that is empty, as of {@link propose}. */
  say(message: string | { data: unknown }, options?: { to?: readonly string[] }): Promise<Position>
  /** Sends a move to a referee: a message with these data, which only the admins who watch get, and this user does not get either. */
  propose(move: unknown): Promise<Position>
  /**
   * Ends the membership. The room goes on if the client watches it. Rejects with `lost` if the server has ended the
   * membership before; `to` says where the user was moved, and has a seat now. If it rejects with `unknown` the membership
   * has ended as well, but the seat may not be free before the connection ends.
   */
  leave(): Promise<void>
  /** Ends the watching. The room goes on if the client is a member. */
  unwatch(): Promise<void>

  [Symbol.asyncIterator](): AsyncIterableIterator<Change<Data, MemberData>>
}

/** What happened. `epoch` and `version` are the room's behind it. A newer server may send further types: ignore those. */
export type Change<Data = any, MemberData = any> = Position & (
  /** The room at this version, in place of what was before: at the start, after a reconnect, or for a reader that lags. */
  | { readonly type: "snapshot"; readonly users: readonly User<MemberData>[]; readonly settings: Settings; readonly host: string | undefined; readonly data: Data | undefined; readonly timers: Timers; readonly seat: number | undefined }
  /** This session is a member no more, although it did not leave, or may not watch any more. A membership is lost once. */
  | { readonly type: "lost"; readonly reason: Reason | "replaced" | ServerCode; readonly text?: string; readonly to?: string }
  /** The user came in. `away`: the seat is reserved, and the user has no connection yet. */
  | { readonly type: "join"; readonly user: string; readonly seat: number; readonly away?: boolean }
  /** The user left. `reason`: `left`, `timeout`, `node`, `kicked` (`text` says why), `closed` or `moved` (`to` says where). */
  | { readonly type: "leave"; readonly user: string; readonly seat: number; readonly reason: Reason; readonly text?: string; readonly to?: string }
  /** The user has the seat `seat` now. Who had it has another one, by the next changes of the same version. */
  | { readonly type: "seat"; readonly user: string; readonly seat: number }
  /** The user has lost the connection, or has one again. */
  | { readonly type: "away" | "back"; readonly user: string; readonly seat: number }
  /** The user is ready or not, or has other data, null for none. What is left out is as before. */
  | { readonly type: "member"; readonly user: string; readonly seat: number; readonly ready?: boolean; readonly data?: MemberData | null }
  /** The member has other private data, null for none. It comes to that user and to admins. */
  | { readonly type: "private"; readonly user: string; readonly seat: number; readonly data: any }
  /** The room has other settings. */
  | { readonly type: "settings"; readonly settings: Settings }
  /** The member is the host now, or, without `user`, nobody is any more. */
  | { readonly type: "host"; readonly user?: string }
  /** The room has other data. `user` is who set it, unless that was the API. */
  | { readonly type: "data"; readonly user?: string; readonly data?: Data }
  /** A timer was set: `in` is the ms that it had left, `ends` when it fires by `performance.now()`. `in` null: it was cancelled. `user` is who did it, unless that was the API. */
  | { readonly type: "countdown"; readonly user?: string; readonly name: string; readonly in: number | null; readonly ends?: number }
  /** A timer has fired. What it does besides follows in the same version. */
  | { readonly type: "timer"; readonly name: string }
  /** Somebody said something. `to`: to these users alone. */
  | { readonly type: "message"; readonly user?: string; readonly text?: string; readonly data?: any; readonly to?: readonly string[] }
)
