package anomaly

import (
	"cmp"
	"slices"
	"strings"
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

// sentences describe findings of SUBJECT, caused by BY.
var sentences = map[string]string{
	Lost:       "SUBJECT's acknowledged request is not in the list",
	Phantom:    "SUBJECT is in the list after a leave or a refused join",
	Duplicate:  "SUBJECT is in the list more than once",
	TwoHolders: "BY took the lock and wrote while SUBJECT held it and wrote",
	Deleted:    "BY deleted SUBJECT's lock",
	Kept:       "SUBJECT released the lock, and it is still there",
	Stuck:      "SUBJECT gave up, and the room was still stuck",
}

// Finding is one anomaly.
type Finding struct {
	What    string        // Lost, Phantom, …
	At      time.Duration // when it appeared
	Subject string        // the user it happened to
	By      string        // the caller that caused it, or ""
}

// String describes the finding in a line.
func (f Finding) String() string {
	return strings.NewReplacer("SUBJECT", f.Subject, "BY", f.By).Replace(sentences[f.What])
}

// Findings are all anomalies of a history.
type Findings struct {
	All     []Finding     // in order of time
	Longest time.Duration // how long callers waited at most without any progress, which alone is no anomaly
	Forever bool          // a stuck room stays stuck, or a released lock held, because the lock does not expire
}

// Find returns what is wrong in a history.
func Find(h History) Findings {
	kept := kept(h.Events)
	f := Findings{All: slices.Concat(members(h), overlaps(holds(h.Events)), deletions(h.Events), kept)}
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
	Lost       int     `json:"lost"`
	Phantom    int     `json:"phantom"`
	Duplicate  int     `json:"duplicate"` // users who are in the list more than once
	TwoHolders int     `json:"two_holders"`
	Deleted    int     `json:"deleted"` // other people's locks
	Kept       int     `json:"kept"`    // locks that stayed after their release
	Stuck      int     `json:"stuck"`   // 1 if the room did not come free again
	StuckMS    float64 `json:"stuck_ms"`
	Forever    bool    `json:"stuck_forever"`
}

// Counts counts the findings.
func (f Findings) Counts() Counts {
	c := Counts{StuckMS: float64(f.Longest.Microseconds()) / 1000, Forever: f.Forever}
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
	return map[string]*int{
		Lost: &c.Lost, Phantom: &c.Phantom, Duplicate: &c.Duplicate, TwoHolders: &c.TwoHolders,
		Deleted: &c.Deleted, Kept: &c.Kept, Stuck: &c.Stuck,
	}[what]
}
