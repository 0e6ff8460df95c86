// What an operator does to rooms. Each asks first, and names what will happen.

import { request, roomPath } from "./api.js"
import { confirm } from "./dialog.js"
import { named, plural, quoted } from "./dom.js"
import { byteLength } from "./format.js"

const maxReason = 200 // bytes

const lengths = [["600", "10 minutes"], ["3600", "1 hour"], ["86400", "1 day"], ["604800", "1 week"], ["31536000", "1 year"]]

const reason = {
  name: "text", label: "Why (everybody in the room is told)", hint: "May be left out.",
  check: (value) => (byteLength(value) > maxReason ? `That is too long by ${byteLength(value) - maxReason} bytes.` : ""),
}

const who = { name: "user", label: "Name of the player", check: (value) => (value ? "" : "Whom? Type the name.") }

const bans = (none) => ({ name: "ban", label: "Keep out for", options: none ? [["", "not at all"], ...lengths] : lengths })

const lengthOf = (ban) => lengths.find(([seconds]) => seconds === ban)?.[1]

/** Kicks a member. `done` is called with a sentence. */
export function kick(room, user, done) {
  confirm({
    title: "Kick a player?",
    about: [named(user, { class: "name" }), ` loses the seat in room ${room} at once, and is told why. So are the others.`],
    action: "Kick", danger: true, fields: [reason, bans(true)],
    work: async ({ text, ban }) => {
      await send(room, user, text, ban)
      done(`${quoted(user)} was kicked from room ${room}${ban ? `, and is kept out for ${lengthOf(ban)}` : ""}.`)
    },
  })
}

/** Bans a user, who may be there or not. */
export function ban(room, done) {
  confirm({
    title: "Ban a player?",
    about: [`Whoever has this name cannot come into room ${room} for that time, and is kicked if already there.`],
    action: "Ban", danger: true, fields: [who, bans(false), reason],
    work: async ({ user, text, ban }) => {
      await send(room, user, text, ban)
      done(`${quoted(user)} is kept out of room ${room} for ${lengthOf(ban)}.`)
    },
  })
}

function send(room, user, text, ban) {
  return request("POST", roomPath(room, "kick"), { body: { user, ...(text && { text }), ...(ban && { ban: Number(ban) }) } })
}

/** Lifts the ban of a user. */
export function unban(room, done) {
  confirm({
    title: "Lift a ban?",
    about: [`Whoever has this name may come into room ${room} again. Who was not banned may anyway.`],
    action: "Lift the ban", fields: [who],
    work: async ({ user }) => {
      await request("DELETE", roomPath(room, "bans", user))
      done(`${quoted(user)} may come into room ${room}.`)
    },
  })
}

/** Closes a room. `state` is what is known of it. */
export function close(room, state, done) {
  confirm({
    title: `Close room ${room}?`,
    about: [`${state?.count ? `${plural(state.count, "member")} ${state.count === 1 ? "has" : "have"} to leave` : "Nobody is in it"}, and nobody can come in. An hour later the room is forgotten, with its settings and data.`],
    action: "Close the room", danger: true,
    work: async () => {
      await request("DELETE", roomPath(room))
      done(`Room ${room} is closed.`)
    },
  })
}
