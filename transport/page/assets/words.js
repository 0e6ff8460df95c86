// What the page says about errors and changes, for people.

import { quoted } from "./dom.js"

/** Why a request did not work. `asked` is the seat that was asked for, if any. */
export function explain(error, asked) {
  switch (error?.code) {
    case "room_full":
      return "This table is full. You can watch, and sit down when somebody leaves."
    case "seat_taken":
      return `Seat ${asked} has just been taken. Choose another one.`
    case "closed":
      return "This table is closed: nobody can sit down here."
    case "banned":
      return "You were sent away from this table, and cannot come back yet."
    case "forbidden":
      return "Your token does not let you come to this table."
    case "duplicate_user":
      return "You sit here already, in another tab or window."
    case "not_member":
      return "You do not sit at this table any more."
    case "rate_limited":
      return "That was a lot at once. Wait a moment, and try again."
    case "busy":
      return "There is a crowd at this table. Try again in a moment."
    case "unavailable":
    case "timeout":
      return "The server cannot do that now. Nothing has changed; try again in a moment."
    case "unknown":
      return "The connection broke meanwhile. Look whether it was done."
    case "too_large":
      return "That is too long."
    case "bad_request":
      return asked === undefined ? `That did not work: ${error.message}` : `This table has no seat ${asked}.`
    case "client_closed":
      return ""
    default:
      return `That did not work: ${error?.message ?? error}`
  }
}

/** Why this tab has no seat any more, although nobody stood up here. */
export function explainLost(change) {
  const said = change.text ? ` They said: “${quoted(change.text)}”` : ""
  switch (change.reason) {
    case "kicked":
      return `You were sent away from this table.${said}`
    case "closed":
      return `This table was closed.${said}`
    case "moved":
      return `You were taken to table ${change.to}.`
    case "replaced":
      return "You sit here in another tab or window now. This one goes on watching."
    case "room_full":
    case "seat_taken":
      return "Your seat was taken while you were away. You can watch, or take another one."
    case "left":
    case "timeout":
      return "You were away for too long, so your seat is free again."
    default:
      return "You have no seat at this table any more."
  }
}

/** Why the connection has ended for good, and what the way on is called. */
export function explainEnd(error) {
  switch (error?.code) {
    case "replaced":
      return { text: "You sit here in another tab or window now. This one is no longer connected.", action: "Play here instead" }
    case "unauthorized":
      return { text: "Your token has expired, or the server does not accept it.", action: "Show another token" }
    default:
      return { text: `The connection has ended. ${error?.message ?? ""}`, action: "Connect again" }
  }
}

const gone = {
  left: "stood up",
  timeout: "did not come back in time",
  node: "did not come back in time",
  kicked: "was sent away",
  closed: "left, because the table was closed",
}

/** What a change says in the list of what happened, behind the user's name; undefined for nothing. */
export function happened(change, wasReady) {
  switch (change.type) {
    case "join":
      return change.away ? `has seat ${change.seat} reserved` : `sat down at seat ${change.seat}`
    case "leave":
      if (change.reason === "moved") return `moved to table ${change.to}`
      return gone[change.reason] ?? "left"
    case "away":
      return "has lost the connection; the seat is kept for a while"
    case "back":
      return "is back"
    case "member":
      if (change.ready === undefined || change.ready === Boolean(wasReady)) return undefined
      return change.ready ? "is ready" : "is not ready any more"
  }
}
