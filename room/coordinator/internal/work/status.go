package work

import (
	"time"

	"roomd/room/coordinator/internal/store"
)

// status is where a worker stands with its room's lock, and with the other nodes that use the room:
//
//	status         the worker's token               what the worker does next
//	shared         is not in Redis                  commits where the lock is free; without a copy it asks for both
//	alone          is not in Redis; the last        the same
//	               hold met no other node
//	waiting        waits in the queue, or may       waits for the lock
//	holding        has the lock                     commits under the lock
//	holdingAlone   has the lock, nobody waited      the same, and leaves no token in the queue
//
//	             asked                  granted
//	shared  ──────────────► waiting ─────────────► holding
//	  │ ▲                    ▲   │ grantedAtOnce
//	  │ │ metOthers    asked │   ▼
//	  ▼ │ metNobody          │  holdingAlone
//	alone  ──────────────────┘
//
// A token is spent when a commit carries it, or the worker gives it up: that leads from waiting and holding to shared,
// and from holdingAlone to alone. kept leads back: the commit has given the lock to the worker's next token. The whole
// table is transitions.
type status int

const (
	shared status = iota
	alone
	waiting
	holding
	holdingAlone
)

// input is what happens to a status.
type input int

const (
	asked         input = iota // for the lock: the token waits, or may
	granted                    // the lock, after others
	grantedAtOnce              // the lock, which was free
	spent                      // the token: by a commit, or it was given up
	kept                       // the lock, or taken, by a commit
	metNobody                  // a commit without the lock was written
	metOthers                  // a commit without the lock was not

	inputs
)

// transitions are the statuses behind an input. A status without an entry stays as it is.
var transitions = [inputs]map[status]status{
	asked:         {shared: waiting, alone: waiting, holding: waiting, holdingAlone: waiting},
	granted:       {waiting: holding},
	grantedAtOnce: {waiting: holdingAlone},
	spent:         {waiting: shared, holding: shared, holdingAlone: alone},
	kept:          {shared: holding, alone: holdingAlone},
	metNobody:     {shared: alone},
	metOthers:     {alone: shared},
}

// take changes the status by an input.
func (s *status) take(in input) {
	if next, changes := transitions[in][*s]; changes {
		*s = next
	}
}

// holds reports whether the lock has the token, as far as the worker knows.
func (s status) holds() bool { return s == holding || s == holdingAlone }

// inRedis reports whether the token waits or has the lock, so that the worker has to give it up.
func (s status) inRedis() bool { return s == waiting || s.holds() }

// conflicts are what the worker knows of other writers of its room. Two nodes whose players share a table write to it
// by turns, and a commit that finds another room has most often met one that came a moment earlier. So the worker
// applies its actions again and commits again, still without the lock: whoever takes the lock has the others queue,
// and each of them has to be woken. As in optimistic concurrency control (Kung and Robinson, 1981), a writer that has
// failed a few times is let through: it takes the lock.
type conflicts struct {
	inARow     int
	eventsLost bool   // the event of a commit that was met did not come, and none has since
	lostEpoch  string // has to end with the next commit, since Redis has lost something of it; or ""
}

const (
	// MaxConflicts is how often in a row a commit may find another room before it takes the lock.
	MaxConflicts = 3

	// EventPatience is how long a worker waits for the event of a commit that its own has met, before it reads the
	// room.
	EventPatience = 20 * time.Millisecond
)

// next returns what a commit does if it finds another room than the copy, which follows the room's events or not.
func (c *conflicts) next(follows bool) store.OnConflict {
	switch {
	case c.inARow >= MaxConflicts:
		return store.LockOnConflict
	case follows && !c.eventsLost:
		return store.WaitOnConflict
	}
	return store.ReadOnConflict
}

// lookahead decides whether it pays to queue a token before something waits. A node that shares a busy room with
// others has its next token put into the queue by the same script that releases the lock, even if nothing waits for
// the room here at that moment: until the token gets the lock something will have come, and need not ask for it any
// more. So a hold is one request instead of two. The zero value says that it does not pay.
type lookahead struct {
	pays   bool
	queued time.Time     // when the token was put into the queue
	waited time.Duration // how long the last token waited for the lock
	ended  time.Time     // when the last hold ended
}

// missing records that the worker has to ask for the lock, since no token waits: one that had been queued at the end
// of the last hold would have been of use if it had not got the lock yet.
func (l *lookahead) missing() {
	l.queued = time.Now()
	l.pays = l.queued.Sub(l.ended) <= l.waited
}

// holdEnded records the end of a hold.
func (l *lookahead) holdEnded() {
	l.ended = time.Now()
	l.queued = l.ended
}

// granted records that the token has got the lock after others.
func (l *lookahead) granted() { l.waited = time.Since(l.queued) }
