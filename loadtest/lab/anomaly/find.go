package anomaly

import (
	"cmp"
	"slices"
	"time"
)

// What can be wrong.
const (
	Lost       = "lost"
	Phantom    = "phantom"
	Duplicate  = "duplicate"
	TwoHolders = "two_holders"
	Deleted    = "deleted"
	Kept       = "kept"
	Stuck      = "stuck"
)

// Finding is one anomaly.
type Finding struct {
	What    string        // Lost, Phantom, …
	At      time.Duration // when it appeared
	Subject string        // the user it happened to
	By      string        // the caller that caused it, or ""
}

// Findings are all anomalies of a history.
type Findings struct {
	All  []Finding     // in order of time
	Both time.Duration // how long two or more held the lock
	// Longest is how long callers waited at most without any progress, which alone is
	// no anomaly.
	Longest time.Duration
	Forever bool // a stuck room stays stuck, because the lock does not expire
}

// Find returns what is wrong in a history.
func Find(h History) Findings {
	var f Findings
	f.All = append(f.All, members(h)...)
	overlaps, both := overlaps(holds(h.Events))
	f.All = append(f.All, overlaps...)
	f.Both = both
	f.All = append(f.All, deletions(h.Events)...)
	kept := kept(h.Events)
	f.All = append(f.All, kept...)
	w := longestWait(h.Events)
	f.Longest = w.length
	if w.gaveUp && (w.length >= stuckTTLs*h.TTL || h.Forever) {
		f.All = append(f.All, Finding{What: Stuck, At: w.until, Subject: w.waiter})
		f.Forever = h.Forever
	}
	f.Forever = f.Forever || h.Forever && len(kept) > 0
	slices.SortStableFunc(f.All, func(a, b Finding) int { return cmp.Compare(a.At, b.At) })
	return f
}

// Counts are the numbers of a report.
type Counts struct {
	Lost         int     `json:"lost"`
	Phantom      int     `json:"phantom"`
	Duplicate    int     `json:"duplicate"` // users who are in the list more than once
	TwoHolders   int     `json:"two_holders"`
	TwoHoldersMS float64 `json:"two_holders_ms"`
	Deleted      int     `json:"deleted"` // other people's locks
	Kept         int     `json:"kept"`    // locks that stayed after their release
	Stuck        int     `json:"stuck"`   // 1 if the room did not come free again
	StuckMS      float64 `json:"stuck_ms"`
	Forever      bool    `json:"stuck_forever"`
}

// Counts counts the findings.
func (f Findings) Counts() Counts {
	c := Counts{TwoHoldersMS: ms(f.Both), StuckMS: ms(f.Longest), Forever: f.Forever}
	for _, finding := range f.All {
		*c.of(finding.What)++
	}
	return c
}

// Of returns how many anomalies of that kind were found.
func (c Counts) Of(what string) int { return *c.of(what) }

// Total is the number of anomalies.
func (c Counts) Total() int {
	return c.Lost + c.Phantom + c.Duplicate + c.TwoHolders + c.Deleted + c.Kept + c.Stuck
}

func (c *Counts) of(what string) *int {
	switch what {
	case Lost:
		return &c.Lost
	case Phantom:
		return &c.Phantom
	case Duplicate:
		return &c.Duplicate
	case TwoHolders:
		return &c.TwoHolders
	case Deleted:
		return &c.Deleted
	case Kept:
		return &c.Kept
	default:
		return &c.Stuck
	}
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// String describes the finding in a line.
func (f Finding) String() string {
	switch f.What {
	case Lost:
		return f.Subject + "'s acknowledged request is not in the list"
	case Phantom:
		return f.Subject + " is in the list after a leave or a refused join"
	case Duplicate:
		return f.Subject + " is in the list more than once"
	case TwoHolders:
		return f.By + " took the lock and wrote while " + f.Subject + " held it and wrote"
	case Deleted:
		return f.By + " deleted " + f.Subject + "'s lock"
	case Kept:
		return f.Subject + " released the lock, and it is still there"
	default:
		return f.Subject + " gave up, and the room was still stuck"
	}
}
