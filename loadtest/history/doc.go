// Package history proves that a room server's lists are right, or finds what is wrong
// with them, from nothing but what its clients were told.
//
// Start with [NewLedger]. Each connection of each player opens a [View] per room and
// feeds it the server's replies and events in the order of arrival. A View holds the
// list, the data and the settings that its client must believe in, and reports at once what
// contradicts them. It passes on to the [Ledger] the acknowledgements, the changes committed at
// each version, and fingerprints of what was there at that version. So the ledger notices during
// the run when two clients were told different things.
//
// After the run [Ledger.Check] replays every room version by version and compares the
// outcome with the store, and [Ledger.CheckNode] compares a node's own answer with it.
// [Ledger.Violations] has all that was found.
//
// The package promises that a history which a correct server can produce gives no
// violation: of joins, leaves, data, settings, messages, kicks, bans, parties and moves. What an
// administrator does who has no View goes to the ledger directly ([Ledger.Done]).
//
// A request with an unknown outcome ([View.Unknown], [View.Unanswered]) may have been committed
// or not. It excuses what it could have done, at versions of which no client saw the
// event, and nothing else. Where too many unknown requests meet in one unseen stretch to
// try all outcomes, the checker gives them the benefit of the doubt.
//
// It cannot see what no client was told and the store does not show. Of time it knows only when
// a join was answered, which it compares with the end of a ban; see [Options].Now.
//
// The package imports none of the server's packages, so that a mistake in the rules
// cannot hide in the proof. It starts no goroutines.
package history
