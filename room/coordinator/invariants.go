package coordinator

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"roomd/lockmgr/redisconn"
	"roomd/room"
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

	// confirmTimes and confirmAfter are how often, and for how long, a room must differ before
	// that is shown.
	confirmTimes = 3
	confirmAfter = 3 * time.Second

	// maxShadows bounds the shadows: how many members they have in all, and emptyCopySize for
	// each. Of further rooms one takes the place of another.
	maxShadows = 1 << 16
)

// invariants checks the rooms that are watched on this node, one after the other, without their
// locks. It changes nothing. A room differs if it does so in several checks in a row: events may
// come late, and what a failover has lost is put right soon. It is shown until a check is clean.
type invariants struct {
	lifetime lifetime
	store    *store
	feeds    *feeds

	// Used only by loop.
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

func newInvariants(c *Coordinator) *invariants {
	v := &invariants{
		lifetime: c.lifetime, store: c.store, feeds: c.feeds, shadows: make(map[string]*shadow), last: make(map[string]room.Position),
		doubts: make(map[string]*doubt), checked: make(map[Check]*found),
	}
	for _, check := range AllChecks {
		v.checked[check] = &found{differs: make(map[string]string)}
	}
	return v
}

// loop checks rooms as long as the coordinator is open.
func (v *invariants) loop() {
	for open := v.lifetime.open; open.Err() == nil; {
		pause := checkPause
		if id, some := v.next(time.Now()); some {
			pause += time.Duration(v.check(id)) * checkPauseEach
		} else {
			pause = checkAgain / 2
		}
		_ = redisconn.Pause(open, pause)
	}
	for id := range v.shadows {
		v.drop(id)
	}
}

// next returns the room to check now, if there is one. Doubts and the round take turns.
func (v *invariants) next(now time.Time) (id string, some bool) {
	if v.again = !v.again; v.again {
		for id, d := range v.doubts {
			if !now.Before(d.next) {
				return id, true
			}
		}
	}
	if len(v.round) == 0 && now.Sub(v.began) >= checkRound {
		v.round, v.began = v.feeds.watched(), now
		v.forgetOthers()
	}
	if len(v.round) == 0 {
		return "", false
	}
	id, v.round = v.round[0], v.round[1:]
	return id, true
}

// watched returns the rooms that are watched here.
func (fs *feeds) watched() []string {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return slices.Collect(maps.Keys(fs.rooms))
}

// forgetOthers forgets the rooms that are not in the round that begins.
func (v *invariants) forgetOthers() {
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
func (v *invariants) forget(id string) {
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
func (v *invariants) shadowOf(id string) *shadow {
	s := v.shadows[id]
	if s != nil && v.feeds.has(s.feed) {
		return s
	}
	v.drop(id)
	if s = v.feeds.shadow(id); s != nil {
		v.shadows[id] = s
		v.resize(s, emptyCopySize)
	}
	return s
}

// resize records what a shadow counts for, and drops others while there are too many. Which ones is
// left to chance, so that no room is never compared.
func (v *invariants) resize(s *shadow, size int) {
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

func (v *invariants) drop(id string) {
	if s := v.shadows[id]; s != nil {
		s.stop()
		v.size -= s.size
		delete(v.shadows, id)
	}
}

// Checks returns what the checks of this node have found. Without Options.Report nothing is checked.
func (c *Coordinator) Checks() map[Check]Checked {
	v := c.invariants
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
