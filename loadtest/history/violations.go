package history

import (
	"fmt"
	"sync"
)

// Kind is a way in which a list can be wrong. Its text is the name of the field
// that counts it in a report.
type Kind string

// The kinds of violation.
const (
	// Lost: an acknowledged action is not in the list.
	Lost Kind = "lost"
	// Phantom: a user who never joined is in the list, or leaves it.
	Phantom Kind = "phantom"
	// Duplicate: a user joined twice, or is in a list twice.
	Duplicate Kind = "duplicate"
	// Oversold: a room has more members than its capacity.
	Oversold Kind = "oversold"
	// SeatClash: two users have one seat.
	SeatClash Kind = "seat_clash"
	// VersionGap: a version was skipped, came twice, or nothing explains it; or a room
	// changed its epoch although no data loss was declared.
	VersionGap Kind = "version_gap"
	// Intruder: somebody came in who must not, into a closed room or in spite of a ban, or did what only the host may.
	Intruder Kind = "intruder"
	// Torn: a party or a move took place in part.
	Torn Kind = "torn"
	// Conflict: a compare-and-set replaced what it did not expect, or was refused although
	// what it expected was there; or a match found no seat.
	Conflict Kind = "conflict"
	// Diverged: two sources say different things about one version.
	Diverged Kind = "diverged"
)

// Counts are the numbers of violations by kind, under their names in a report.
type Counts struct {
	Lost       int `json:"lost"`
	Phantom    int `json:"phantom"`
	Duplicate  int `json:"duplicate"`
	Oversold   int `json:"oversold"`
	SeatClash  int `json:"seat_clash"`
	VersionGap int `json:"version_gap"`
	Diverged   int `json:"diverged"`
	Intruder   int `json:"intruder"`
	Torn       int `json:"torn"`
	Conflict   int `json:"conflict"`
}

// Total returns the sum of all kinds.
func (c Counts) Total() int {
	return c.Lost + c.Phantom + c.Duplicate + c.Oversold + c.SeatClash + c.VersionGap + c.Diverged +
		c.Intruder + c.Torn + c.Conflict
}

// Verdict returns "consistent" if the total is zero, and otherwise "inconsistent".
func (c Counts) Verdict() string {
	if c.Total() == 0 {
		return "consistent"
	}
	return "inconsistent"
}

func (c *Counts) of(k Kind) *int {
	switch k {
	case Lost:
		return &c.Lost
	case Phantom:
		return &c.Phantom
	case Duplicate:
		return &c.Duplicate
	case Oversold:
		return &c.Oversold
	case SeatClash:
		return &c.SeatClash
	case VersionGap:
		return &c.VersionGap
	case Intruder:
		return &c.Intruder
	case Torn:
		return &c.Torn
	case Conflict:
		return &c.Conflict
	default:
		return &c.Diverged
	}
}

// place is where a violation is. A violation counts once, however many clients see it,
// and again only at another place.
type place struct {
	kind  Kind
	room  string
	epoch string
	// version is 0 for what stays wrong in every later version: a clash, a room that is
	// too full, a name that is in the list twice.
	version uint64
	subject string // the user, seat or observer it is about
}

const (
	maxDescriptions = 100     // kept by Violations
	maxPlaces       = 1 << 16 // remembered; beyond them a violation may count twice
)

// Violations collects what views and checks find. It is safe for concurrent use. The
// zero value is empty and ready.
type Violations struct {
	mu           sync.Mutex
	counts       Counts             // guarded by mu
	seen         map[place]struct{} // guarded by mu; made with the first violation
	descriptions []string           // guarded by mu
}

// Counts returns how many violations of each kind were found so far.
func (v *Violations) Counts() Counts {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.counts
}

// Total returns how many violations were found so far.
func (v *Violations) Total() int { return v.Counts().Total() }

// Verdict returns "consistent" while nothing was found, and otherwise "inconsistent".
func (v *Violations) Verdict() string { return v.Counts().Verdict() }

// Descriptions returns the first hundred violations, one line each, in the order in
// which they were found.
func (v *Violations) Descriptions() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return append([]string(nil), v.descriptions...)
}

// report counts the violation at p, once. The description has version, because p's may
// be 0.
func (v *Violations) report(p place, version uint64, format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, seen := v.seen[p]; seen {
		return
	}
	if v.seen == nil {
		v.seen = make(map[place]struct{})
	}
	if len(v.seen) < maxPlaces {
		v.seen[p] = struct{}{}
	}
	*v.counts.of(p.kind)++
	if len(v.descriptions) < maxDescriptions {
		v.descriptions = append(v.descriptions,
			fmt.Sprintf("room %s version %d: %s [%s]", p.room, version, fmt.Sprintf(format, args...), p.kind))
	}
}
