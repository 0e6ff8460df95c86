package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"roomd/room"
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

// maxDiffers is how many rooms a report names for each check, and maxWhat how long their
// descriptions are.
const (
	maxDiffers = 20
	maxWhat    = 300
)

// verdicts say what is wrong with a room, "" for nothing. A check that could not be made is missing.
type verdicts map[Check]string

// check checks a room, and returns how many members it has.
func (v *invariants) check(id string) (members int) {
	ctx, cancel := context.WithTimeout(v.lifetime.open, rereadTimeout)
	defer cancel()
	s := v.shadowOf(id)
	if s == nil {
		v.forget(id)
		return 0
	}
	if s.feed.sub.Wait(ctx) != nil { // events do not come now
		return 0
	}
	resets := s.hold()
	is, err := v.store.load(ctx, id)
	_, syncing := s.feed.position()
	found, gap := verdicts{}, s.missed()
	switch {
	case errors.Is(err, errForeign):
		found[CheckCopies] = err.Error()
	case err != nil || syncing: // Redis is away, or the node knows that it has missed something
	default:
		members = is.Count()
		found[CheckSeats], found[CheckCapacity] = is.Clash(), is.Overfull()
		v.compare(ctx, s, is, resets, found)
		v.resize(s, emptyCopySize+members)
	}
	s.release()
	if gap != "" {
		found[CheckVersions] = gap
	}
	v.record(id, found, gap != "", time.Now())
	return members
}

// compare compares the room in Redis with what the node knows of it.
func (v *invariants) compare(ctx context.Context, s *shadow, is *room.Room, resets int, found verdicts) {
	at, order, differences, known := s.meet(ctx, is)
	last := v.last[is.ID]
	if !known {
		at, order = last, last.Compare(is.Position)
	}
	if is.Renewed() {
		found[CheckCopies] = cmp.Or(differences, fmt.Sprintf("Redis has %d members, and not as many as the last commit has left", is.Count()))
	} else if !known || order == room.Same {
		found[CheckCopies] = differences
	}
	found[CheckVersions] = ""
	switch {
	case order == room.Earlier, order == room.Forked:
		found[CheckVersions] = fmt.Sprintf("version %d of epoch %s was followed by version %d with other content", at.Version, at.Epoch, is.Version)
	case !known:
		s.adopt(is, resets)
	case order == room.OtherEpoch && is.Position == (room.Position{}) && s.isEmpty():
		s.forget() // Redis does not keep empty rooms for ever
	case order != room.Same:
		found[CheckVersions] = fmt.Sprintf("Redis is at version %d of epoch %q, and the last event was of version %d of epoch %q", is.Version, is.Epoch, at.Version, at.Epoch)
	}
	if found[CheckVersions] == "" {
		v.last[is.ID] = is.Position
	}
}

// record keeps what a check of a room has found. sure says that a wrong version needs no other
// check to confirm it.
func (v *invariants) record(id string, all verdicts, sure bool, now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	d := v.doubts[id]
	if d == nil {
		d = &doubt{of: make(map[Check]*finding)}
	}
	d.next = now.Add(checkAgain)
	for check, what := range all {
		result := v.checked[check]
		result.checks++
		result.at = now
		if what == "" {
			delete(d.of, check)
			delete(result.differs, id)
			continue
		}
		f := d.of[check]
		if f == nil || check == CheckVersions && f.what != what { // it goes on
			f = &finding{since: now}
			d.of[check] = f
		}
		f.what, f.times = what, f.times+1
		if sure && check == CheckVersions || f.times >= confirmTimes && now.Sub(f.since) >= confirmAfter {
			result.differs[id] = shortened(what)
		}
	}
	if len(d.of) > 0 {
		v.doubts[id] = d
	} else {
		delete(v.doubts, id)
	}
}

func shortened(text string) string { return fmt.Sprintf("%.*s", maxWhat, text) }
