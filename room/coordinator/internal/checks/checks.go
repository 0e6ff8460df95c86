// Package checks looks for faults and changes nothing.
//
// [Redis.Check] tests what Redis allows, and reports problems that would appear later (rights.go). [Checks] compares
// the rooms watched on a node with the node's copies, one room at a time and without locks. It runs in the goroutine
// that calls [Checks.Loop].
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
	// checkPause is the pause after each checked room, and checkPauseEach the addition per member. They keep the load
	// on Redis and the node small.
	checkPause     = 50 * time.Millisecond
	checkPauseEach = 100 * time.Microsecond

	// checkRound is the least time between the starts of two rounds, and checkAgain the time until a doubtful room is
	// checked again.
	checkRound = 2 * time.Second
	checkAgain = time.Second

	// A room is reported after confirmTimes differing checks in a row, over confirmAfter.
	confirmTimes = 3
	confirmAfter = 3 * time.Second

	// maxShadows limits the members of all shadows together; emptySize is the size of a shadow without members. At
	// the limit a new shadow replaces others.
	maxShadows = 1 << 16

	emptySize = 8
)

// Check names an invariant that each node checks in the rooms watched there.
type Check string

const (
	CheckCopies   Check = "copies"   // Redis agrees with the copy that the node has built from events
	CheckSeats    Check = "seats"    // no seat is taken twice
	CheckCapacity Check = "capacity" // no room has more members, or a higher seat, than its settings allow
	CheckVersions Check = "versions" // versions have no gap, and do not go back within an epoch
)

// AllChecks are the checks in display order.
var AllChecks = []Check{CheckCopies, CheckSeats, CheckCapacity, CheckVersions}

// Checked is the result of a check on a node.
type Checked struct {
	Checked uint64       `json:"checked" doc:"How often a room was checked."`
	Rooms   int          `json:"rooms" doc:"How many rooms are not as they should be."`
	Differs []Difference `json:"differs" doc:"Some of these."`
	At      int64        `json:"at" doc:"When a room was last checked, in ms since 1970; 0 for never."`
}

// Difference is a room that violates an invariant.
type Difference struct {
	Room string `json:"room"`
	What string `json:"what" doc:"For people."`
}

// maxDiffers limits the rooms named per check, maxWhat the length of their descriptions.
const (
	maxDiffers = 20
	maxWhat    = 300
)

// verdicts describe the faults of a room by check, "" for none. A check that could not be made is missing.
type verdicts map[Check]string

// Checks checks the rooms watched on this node, one after the other, without locks and changes. A room counts as
// differing after several differing checks in a row, since events may be late and losses of a failover are soon
// mended. It is reported until a check is clean.
type Checks struct {
	store *store.Store
	feeds *feed.Feeds

	// Used only by Loop.
	round   []string // rooms still to be checked
	began   time.Time
	again   bool                     // the last check looked at doubtful rooms first
	shadows map[string]*shadow       // by room
	size    int                      // total size of shadows
	last    map[string]room.Position // by room: the position in Redis
	doubts  map[string]*doubt        // by room

	mu      sync.Mutex
	checked map[Check]*found // guarded by mu
}

type found struct {
	checks  uint64
	at      time.Time
	differs map[string]string // by room: the difference
}

type doubt struct {
	next time.Time // when to check it again
	of   map[Check]*finding
}

// finding is a fault in one room, and how long it has lasted.
type finding struct {
	what  string
	since time.Time
	times int
}

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

// shadow is this node's copy of a room, built from the events that its watchers got. Checks compares it with Redis.
type shadow struct {
	*feed.Replica
	size int // its share of maxShadows
}

// Loop checks rooms until open ends.
func (v *Checks) Loop(open context.Context) {
	for open.Err() == nil {
		id, wait := v.next(time.Now())
		if wait == 0 {
			wait = checkPause + time.Duration(v.check(open, id))*checkPauseEach
		}
		_ = pause.For(open, wait)
	}
	for id := range v.shadows {
		v.drop(id)
	}
}

// next returns the room to check, or how long to wait before the next call. Doubtful rooms and the round alternate.
func (v *Checks) next(now time.Time) (id string, wait time.Duration) {
	if len(v.round) == 0 && now.Sub(v.began) >= checkRound {
		v.round, v.began = v.feeds.Watched(), now
		v.forgetOthers()
	}
	wait = v.began.Add(checkRound).Sub(now)
	if v.again = !v.again; v.again || len(v.round) == 0 {
		for id, d := range v.doubts {
			if !now.Before(d.next) {
				return id, 0
			}
			wait = min(wait, d.next.Sub(now))
		}
	}
	if len(v.round) == 0 {
		return "", wait
	}
	id, v.round = v.round[0], v.round[1:]
	return id, 0
}

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

// shadowOf returns the shadow of a room, nil if the room is not watched any more.
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

// resize sets a shadow's size, and drops others while all together are too large. It picks them at random, so that no
// room is left out for ever.
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

// Results returns the results of this node's checks.
func (v *Checks) Results() map[Check]Checked {
	v.mu.Lock()
	defer v.mu.Unlock()
	all := make(map[Check]Checked, len(AllChecks))
	for check, f := range v.checked {
		shown := Checked{Checked: f.checks, Rooms: len(f.differs),
			Differs: make([]Difference, 0, min(len(f.differs), maxDiffers))}
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
