// Package checks looks whether all is as it should be, and changes nothing.
//
// [Redis.Check] tries what Redis allows and says what would go wrong later (rights.go). [Checks] compare
// the rooms that are watched on a node with what the node has built from their events, one after the other
// and without their locks.
//
// Checks have the goroutine that calls [Checks.Loop].
package checks

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"roomd/lockmgr/redisconn/pause"
	"roomd/room"
	"roomd/room/coordinator/internal/feed"
	"roomd/room/coordinator/internal/store"
)

const (
	// checkPause is the pause behind each room that is checked, and checkPauseEach what each of
	// its members adds: Redis and the node are to notice little of it.
	checkPause     = 50 * time.Millisecond
	checkPauseEach = 100 * time.Microsecond

	// checkRound is the least time between the beginnings of two rounds, and checkAgain after
	// which a room that seems to differ is checked again.
	checkRound = 2 * time.Second
	checkAgain = time.Second

	// confirmTimes and confirmAfter are how often, and for how long, a room must differ before that is shown.
	confirmTimes = 3
	confirmAfter = 3 * time.Second

	// maxShadows bounds the shadows: how many members they have in all, and emptySize for
	// each. Of further rooms one takes the place of another.
	maxShadows = 1 << 16

	// emptySize is what a shadow without members counts for.
	emptySize = 8
)

// Check names an invariant that each node checks in its rooms.
type Check string

// What is checked.
const (
	CheckCopies   Check = "copies"   // Redis has what the node has built from events
	CheckSeats    Check = "seats"    // no seat is taken twice
	CheckCapacity Check = "capacity" // no room has more members, or a higher seat, than its settings allow
	CheckVersions Check = "versions" // versions have no gap, and do not go back within an epoch
)

// AllChecks are the checks, in the order in which they are shown.
var AllChecks = []Check{CheckCopies, CheckSeats, CheckCapacity, CheckVersions}

// Checked is what a check has found on a node.
type Checked struct {
	Checked uint64       `json:"checked"` // how often a room was checked
	Rooms   int          `json:"rooms"`   // how many differ now
	Differs []Difference `json:"differs"` // some of them, by id
	At      int64        `json:"at"`      // when a room was last checked, in ms since 1970; 0 for never
}

// Difference is a room that is not as it should be.
type Difference struct {
	Room string `json:"room"`
	What string `json:"what"`
}

// maxDiffers is how many rooms a report names for each check, and maxWhat how long their descriptions are.
const (
	maxDiffers = 20
	maxWhat    = 300
)

// verdicts say what is wrong with a room, "" for nothing. A check that could not be made is missing.
type verdicts map[Check]string

// Checks check the rooms that are watched on this node, one after the other, without their
// locks. They change nothing. A room differs if it does so in several checks in a row: events may
// come late, and what a failover has lost is put right soon. It is shown until a check is clean.
type Checks struct {
	store *store.Store
	feeds *feed.Feeds

	// Used only by Loop.
	round   []string // rooms that are still to be checked
	began   time.Time
	again   bool                     // the last check was one of a doubt
	shadows map[string]*shadow       // by room
	size    int                      // the sum of their sizes
	last    map[string]room.Position // by room: what Redis had
	doubts  map[string]*doubt        // by room

	mu      sync.Mutex
	checked map[Check]*found // guarded by mu
}

// found is what a check has found.
type found struct {
	checks  uint64
	at      time.Time
	differs map[string]string // by room: what
}

// doubt is a room that seems to differ.
type doubt struct {
	next time.Time // when to check it again
	of   map[Check]*finding
}

// finding is what a check has found in one room, and for how long.
type finding struct {
	what  string
	since time.Time
	times int
}

// New returns Checks of the rooms that feeds watch.
func New(st *store.Store, feeds *feed.Feeds) *Checks {
	v := &Checks{
		store: st, feeds: feeds, shadows: make(map[string]*shadow), last: make(map[string]room.Position),
		doubts: make(map[string]*doubt), checked: make(map[Check]*found),
	}
	for _, check := range AllChecks {
		v.checked[check] = &found{differs: make(map[string]string)}
	}
	return v
}

// shadow is a room as this node has built it from the events that its watchers got. It is compared
// with the room in Redis.
type shadow struct {
	*feed.Replica
	size int // what it counts for
}

// Loop checks rooms until open ends.
func (v *Checks) Loop(open context.Context) {
	for open.Err() == nil {
		wait := checkPause
		if id, some := v.next(time.Now()); some {
			wait += time.Duration(v.check(open, id)) * checkPauseEach
		} else {
			wait = checkAgain / 2
		}
		_ = pause.For(open, wait)
	}
	for id := range v.shadows {
		v.drop(id)
	}
}

// next returns the room to check now, if there is one. Doubts and the round take turns.
func (v *Checks) next(now time.Time) (id string, some bool) {
	if v.again = !v.again; v.again {
		for id, d := range v.doubts {
			if !now.Before(d.next) {
				return id, true
			}
		}
	}
	if len(v.round) == 0 && now.Sub(v.began) >= checkRound {
		v.round, v.began = v.feeds.Watched(), now
		v.forgetOthers()
	}
	if len(v.round) == 0 {
		return "", false
	}
	id, v.round = v.round[0], v.round[1:]
	return id, true
}

// forgetOthers forgets the rooms that are not in the round that begins.
func (v *Checks) forgetOthers() {
	watched := make(map[string]bool, len(v.round))
	for _, id := range v.round {
		watched[id] = true
	}
	for id := range v.last {
		if !watched[id] {
			v.forget(id)
		}
	}
	for id := range v.doubts {
		if !watched[id] {
			v.forget(id)
		}
	}
}

// forget forgets a room that is not watched any more.
func (v *Checks) forget(id string) {
	v.drop(id)
	delete(v.last, id)
	delete(v.doubts, id)
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, f := range v.checked {
		delete(f.differs, id)
	}
}

// shadowOf returns the shadow of a room, or nil if the room is not watched any more.
func (v *Checks) shadowOf(id string) *shadow {
	s := v.shadows[id]
	if s != nil && v.feeds.Has(s.Replica) {
		return s
	}
	v.drop(id)
	replica := v.feeds.Shadow(id)
	if replica == nil {
		return nil
	}
	s = &shadow{Replica: replica}
	v.shadows[id] = s
	v.resize(s, emptySize)
	return s
}

// resize records what a shadow counts for, and drops others while there are too many. Which ones is
// left to chance, so that no room is never compared.
func (v *Checks) resize(s *shadow, size int) {
	v.size += size - s.size
	s.size = size
	for v.size > maxShadows && len(v.shadows) > 1 {
		ids := make([]string, 0, len(v.shadows))
		for id, other := range v.shadows {
			if other != s {
				ids = append(ids, id)
			}
		}
		v.drop(ids[rand.IntN(len(ids))])
	}
}

func (v *Checks) drop(id string) {
	if s := v.shadows[id]; s != nil {
		s.Stop()
		v.size -= s.size
		delete(v.shadows, id)
	}
}

// Results returns what the checks of this node have found.
func (v *Checks) Results() map[Check]Checked {
	v.mu.Lock()
	defer v.mu.Unlock()
	all := make(map[Check]Checked, len(AllChecks))
	for check, f := range v.checked {
		shown := Checked{Checked: f.checks, Rooms: len(f.differs), Differs: make([]Difference, 0, min(len(f.differs), maxDiffers))}
		if !f.at.IsZero() {
			shown.At = f.at.UnixMilli()
		}
		for id, what := range f.differs {
			shown.Differs = append(shown.Differs, Difference{id, what})
		}
		slices.SortFunc(shown.Differs, func(a, b Difference) int { return strings.Compare(a.Room, b.Room) })
		shown.Differs = shown.Differs[:min(len(shown.Differs), maxDiffers)]
		all[check] = shown
	}
	return all
}
