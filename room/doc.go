// Package room has the rules of rooms, and nothing else: who is in a room and on which seat, what joins and leaves
// do, and what events mean for watchers and sessions. Package coordinator runs them under a lock in Redis.
//
// Start with the actions [Join] and [Leave] and with the [Rules] of rooms. A game's own rules implement [Seating].
//
// # Rooms
//
// A [Room] is a set of members at a [Position]. [Room.Apply] runs actions on it, one after the other; [Room.Commit]
// makes them the next version, and [Room.Revert] undoes them. A [Commit] describes the next version, and
// [Room.Advance] brings a copy of the version before up to date with it. A [Snapshot] is one version of a room.
//
// # Settings
//
// A room has [Settings]: how many seats, whether anybody may come in, whether it outlives its last member. The first
// commit copies them from the Rules; [Configure] changes them. They take precedence over the Rules, so that nodes
// with other Rules agree about every room.
//
// # Away and back
//
// [Detach] records that a member's connection is lost: the member is away, and keeps the seat. The member is back
// when any session of the user joins. A leave has a [Reason].
//
// # Data, messages, readiness
//
// A room and its members can have data ([SetData], [SetMemberData]): JSON that is set as a whole, with an [Expect] by
// compare-and-set. [Deal] gives members private data: [Change.IsFor] tells who may see a [Change], and
// [Snapshot.Private] returns the private data that a viewer may see. [Ready] marks a member as ready; a [Starter] can
// begin the game in the same commit. [Say] sends a message. It is a version like any change, so that everybody gets
// messages and changes in one order. [Kept] holds the last messages, if the settings keep any. [Limits] bound sizes.
//
// # Authority
//
// If its settings say so, a room has a host: one of its members, as long as there are any ([Snapshot.Host]). The host
// may [Kick], [Close] and [Configure]; a [Claim] is checked under the lock, against the host at that time.
//
// Each action says whether it needs authority over the room. The caller has to check that: this package does not know
// who has authority. [Reserve] seats a group and [Release] removes one, all of its users or none. A room remembers
// which users were taken out, and why ([Gone]), so that a user who missed it is not brought back.
//
// # Sessions
//
// An [Event] reports a commit in a room. Its Commit tells what became of a user's session, and [Event.LeaveOf] why.
//
// # What it promises
//
//   - Every member has a seat of their own, whatever the Seating does. With [Capacity] there are never more members
//     than seats.
//   - An action that fails changes nothing.
//   - A leave by a session that is no longer active changes nothing.
//
// # What it does not promise
//
// The package is pure: it does no I/O, knows no clock and starts no goroutine. A Room or [Memory] may be used by one
// goroutine at a time; everything else is safe for concurrent use.
package room
