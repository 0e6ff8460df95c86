// Package history proves a room server's lists right, or finds what is wrong
// with them, from nothing but what its clients were told.
//
// Start with [NewLedger]. Each connection of each player opens a [View] per room
// and feeds it what the server says, in the order in which it was said: join,
// leave and users replies, and events. A View holds the list as that client must
// believe it to be, and reports at once what cannot be. It passes on to the
// [Ledger] what was acknowledged, which changes were committed at which version,
// and a fingerprint of the list at that version, so that two clients who were
// told different things are noticed while the run goes on.
//
// After the run, [Ledger.Check] replays every room version by version and holds
// the outcome against what the store says, and [Ledger.CheckNode] holds a node's
// own answer against it. All that was found is in [Ledger.Violations].
//
// What it promises: a history that a correct server can have produced gives no
// violation. A request whose outcome nobody knows ([View.Unknown]) may have been
// committed or not; it excuses what it could have done, at versions of which no
// client saw the event, and nothing else. Where more unknown requests meet in
// one unseen stretch than can be tried out, the checker gives them the benefit
// of the doubt.
//
// What it does not promise: it cannot see what no client was told and the store
// does not show, and it knows nothing of time.
//
// The package imports none of the server's, so that a mistake in the rules
// cannot hide in the proof. It starts no goroutines.
package history
