// Package room has the rules of rooms, and nothing else: who is in a room and on which
// seat, what joins and leaves do, what others hear of it, and what that means for a
// session. Package coordinator runs the rules under a lock in Redis.
//
// Start with [Join] and [Leave], each an [Action], and [Rules], which say what rooms
// allow. A game with rules of its own implements [Seating].
//
// # Rooms
//
// A [Room] is a set of members at a [Position]. [Room.Apply] runs actions on it, one after
// the other; [Room.Commit] makes them the next version, and [Room.Revert] undoes them. A
// [Commit] is what the next version adds. Whoever has a copy of the version before brings
// it up to date with [Room.Advance]. A [Snapshot] is a room at one version and does not
// change.
//
// # Settings
//
// A room has [Settings]: how many seats, whether anybody may come in, whether it outlives its
// last member. The first commit takes them from the Rules; [Configure] changes them. They count
// more than the Rules, so that nodes with other Rules agree about every room.
//
// # Away and back
//
// [Detach] records that a member's connection is lost: the member is away, and keeps the seat.
// A join of any session of the user is "back"; a leave has a [Reason].
//
// # Data, messages, readiness
//
// A room has data ([SetData]) and each member has some ([SetMemberData]): JSON that is set as a whole, by
// compare-and-set with an [Expect]. [Deal] gives members data that the others are not shown: each [Change] says by
// [Change.IsFor] whom it is for, and [Snapshot.Private] has what somebody may see. [Ready] says that a member is
// ready; a [Starter] may begin the game in the same commit. [Say] tells a message, which is a version like any
// change, so that everybody hears both in one order; [Kept] is what a room keeps of them, if its settings say so.
// [Limits] bound all of them.
//
// # Authority
//
// A room whose settings say so has a host: one of its members, as long as there are some ([Snapshot.Host]). The
// host may [Kick], [Close] and [Configure]; a [Claim] is checked under the lock, by who is the host then.
//
// Otherwise [Kick], [Unban], [Close], [Configure] and a SetData or Say without a user are for whoever has
// authority over the room: an action does not say who that is. [Reserve] seats a party and [Release] lets a group
// go, all of them or none. A room remembers who was taken out, and why ([Gone]), so that nobody
// who missed it is brought back.
//
// # Sessions
//
// An [Event] says what happened in a room. A [Membership] is what one session knows of its
// place; [Membership.After] says what an event did to it: the session still speaks for its
// user, was replaced by a newer one, was removed by a failure, or has ended for good.
//
// # What it promises
//
//   - Every member has a seat of their own, whatever the Seating does. With [Capacity]
//     there are never more members than seats.
//   - An action that fails changes nothing.
//   - A leave by a session that does not speak for the user any more changes nothing.
//
// # What it does not promise
//
// The package is pure: it does no I/O, knows no clock and starts no goroutine. A Room may
// be used by one goroutine at a time; everything else is safe for concurrent use.
package room
