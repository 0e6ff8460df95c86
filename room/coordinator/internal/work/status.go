package work

import (
	"time"

	"roomd/room/coordinator/internal/store"
)

// status is a worker's state with regard to its room's lock and other nodes that use the room:
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
// A token is spent by a commit or by giving it up: waiting and holding lead to shared, holdingAlone to alone. kept
// leads back: the commit passed the lock to the worker's next token. The whole table is transitions.
type status int

const (
	shared status = iota
	alone
	waiting
	holding
	holdingAlone
)

// input is an event that may change a status.
type input int

const (
	asked         input = iota // the token waits for the lock, or may
	granted                    // the token got the lock, after others had it
	grantedAtOnce              // the token got the lock, which was free
	spent                      // a commit used the token, or it was given up
	kept                       // a commit passed the lock to the next token, or took the lock
	metNobody                  // a commit without the lock was written
	metOthers                  // a commit without the lock was refused

	inputs
)

// transitions maps an input and a status to the next status. A status without an entry stays as it is.
var transitions = [inputs]map[status]status{
	asked:         {shared: waiting, alone: waiting, holding: waiting, holdingAlone: waiting},
	granted:       {waiting: holding},
	grantedAtOnce: {waiting: holdingAlone},
	spent:         {waiting: shared, holding: shared, holdingAlone: alone},
	kept:          {shared: holding, alone: holdingAlone},
	metNobody:     {shared: alone},
	metOthers:     {alone: shared},
}

func (s *status) take(in input) {
	if next, changes := transitions[in][*s]; changes {
		*s = next
	}
}

// holds reports whether the token has the lock, as far as the worker knows.
func (s status) holds() bool { return s == holding || s == holdingAlone }

// inRedis reports whether the token waits for or has the lock, so that the worker has to give it up.
func (s status) inRedis() bool { return s == waiting || s.holds() }

// conflicts records the worker's encounters with other writers of its room. Two nodes whose players share a table
// write by turns, and a commit that finds another version has usually met one that came a moment earlier. So the
// worker applies and commits again, still without the lock: a lock would make the others queue, and each of them
// would have to be woken. As in optimistic concurrency control (Kung and Robinson, 1981), a writer that has failed a
// few times is let through: it acquires the lock.
type conflicts struct {
	inARow     int
	eventsLost bool   // the event of a conflicting commit did not come, and none has since
	lostEpoch  string // an epoch that has lost commits, so the next commit must end it; "" for none
}

const (
	// MaxConflicts is how many conflicts in a row a worker accepts before its commit acquires the lock.
	MaxConflicts = 3

	// EventPatience is how long a worker waits for the event of a conflicting commit before it reads the room.
	EventPatience = 20 * time.Millisecond
)

// next returns what a commit does on a conflict. follows says that the copy follows the room's events.
func (c *conflicts) next(follows bool) store.OnConflict {
	switch {
	case c.inARow >= MaxConflicts:
		return store.LockOnConflict
	case follows && !c.eventsLost:
		return store.WaitOnConflict
	}
	return store.ReadOnConflict
}

// lookahead decides whether to queue a token before an action waits. On a busy room that nodes share, the script that
// releases the lock also queues the node's next token: by the time the token gets the lock, an action will have come,
// which then need not ask for it. This makes a hold one request instead of two. The zero value does not queue.
type lookahead struct {
	pays   bool
	queued time.Time     // when the token entered the queue
	waited time.Duration // how long the last token waited for the lock
	ended  time.Time     // when the last hold ended
}

// missing records that the worker has to ask for the lock. A token queued at the end of the last hold would have
// helped if it were still waiting now.
func (l *lookahead) missing() {
	l.queued = time.Now()
	l.pays = l.queued.Sub(l.ended) <= l.waited
}

func (l *lookahead) holdEnded() {
	l.ended = time.Now()
	l.queued = l.ended
}

// granted records how long the token waited for the lock.
func (l *lookahead) granted() { l.waited = time.Since(l.queued) }
