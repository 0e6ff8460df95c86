package check

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"time"
)

// Told is an entry of the feed that a reader got: a commit of a room, or a gap.
type Told struct {
	At   time.Duration `json:"at"`
	Room string        `json:"room"`
	Point
	Sum uint64 `json:"sum,omitzero"` // SumOf the commit's mark and changes
	Gap *Gap   `json:"gap,omitzero"` // nil for a commit
}

// Gap says that commits are missing: those between After and Before; without Before, all from the reader's last
// commit up to Now, which is zero if the room is gone.
type Gap struct {
	After  Point `json:"after,omitzero"`
	Before Point `json:"before,omitzero"`
	Now    Point `json:"now,omitzero"`
}

// Readers has the entries of each reader in order.
type Readers map[string][]Told

// FeedVerdict is the result of Feed.
type FeedVerdict struct {
	Violations []Violation
	Commits    map[string]int // by reader, without repetitions
	Again      int            // repetitions
	Gaps       int
}

// SumOf returns a hash of a commit's mark and public changes.
func SumOf(mark string, changes []Change) uint64 {
	sum := fnv.New64a()
	text, _ := json.Marshal(append([]Change{}, changes...))
	_, _ = fmt.Fprintf(sum, "%s %s", mark, text)
	return sum.Sum64()
}

// Feed compares the entries of readers with the journals. Each commit of each room must come at least once, with the
// journal's content; without repetitions, in the order of its room; one epoch after the other. Where Redis lost
// commits, or the journal has dropped them, a gap may replace them, and readers may know commits that are lost.
func Feed(h *History, readers Readers) *FeedVerdict {
	v := &FeedVerdict{Commits: make(map[string]int)}
	for name, told := range readers {
		rooms := make(map[string][]*Told)
		for i := range told {
			rooms[told[i].Room] = append(rooms[told[i].Room], &told[i])
		}
		for _, room := range h.Rooms {
			l := &listener{history: h, journal: h.Journals[room], verdict: v,
				complaints: complaints{"feed, " + name, room, make(map[string]int), &v.Violations}}
			l.index()
			for _, t := range rooms[room] {
				l.hear(t)
			}
			l.complete()
			v.Commits[name] += len(l.seen)
		}
	}
	slices.SortFunc(v.Violations, func(a, b Violation) int { return int(a.At - b.At) })
	return v
}

// unreplicated is how long before a failover Redis may have had commits that no replica has. If replicas are
// required, nobody got an acknowledgement for these, but the feed does not wait for replicas.
const unreplicated = 2 * time.Second

// listener judges one reader's entries of one room.
type listener struct {
	complaints
	history *History
	verdict *FeedVerdict
	journal []Entry
	place   map[Point]int // index in the journal

	seen  map[Point]uint64 // the sum of each commit so far
	over  map[string]bool  // epochs that another one has followed
	last  Point            // the last commit that is no repetition
	gap   *Gap             // after last; nil if there is none
	whole []Point          // of gaps without end, in pairs: the last commit before, and the room's version then
}

func (l *listener) index() {
	l.place, l.seen, l.over = make(map[Point]int), make(map[Point]uint64), make(map[string]bool)
	for i, e := range l.journal {
		l.place[e.point()] = i
	}
}

// hear judges the reader's next entry.
func (l *listener) hear(t *Told) {
	if t.Gap != nil {
		l.verdict.Gaps++
		l.hearGap(t)
		return
	}
	if sum, again := l.seen[t.Point]; again {
		l.verdict.Again++
		if sum != t.Sum {
			l.broken("two contents", t.At, "%v came before with another content", t.Point)
		}
		return
	}
	l.seen[t.Point] = t.Sum
	if i, is := l.place[t.Point]; !is {
		if !l.lossy(t.At) {
			l.broken("phantom", t.At, "%v is not in the journal", t.Point)
		}
	} else if want := SumOf(l.journal[i].Mark, public(l.journal[i].Changes, "", true)); t.Sum != want {
		l.broken("content", t.At, "%v is not what the journal has: %s", t.Point, changes(l.journal[i].Changes))
	}
	if !l.follows(t.Point) {
		l.broken("order", t.At, "%v comes behind %v", t.Point, l.last)
	}
	if l.last.Epoch != t.Epoch {
		l.over[l.last.Epoch] = true
	}
	l.last, l.gap = t.Point, nil
}

// follows reports whether a commit may come next.
func (l *listener) follows(p Point) bool {
	i, is := l.place[p]
	switch {
	case l.over[p.Epoch]:
		return false
	case l.gap != nil && l.gap.Before != (Point{}):
		return p == l.gap.Before
	case p.Epoch == l.last.Epoch:
		return p.Version == l.last.Version+1 || l.gap != nil && p.Version > l.last.Version
	case is && i > 0 && l.journal[i-1].Epoch == p.Epoch:
		return l.gap != nil // another entry of its epoch came before
	}
	return true
}

// hearGap judges whether commits may be missing, and are.
func (l *listener) hearGap(t *Told) {
	g := t.Gap
	if g.Before == (Point{}) {
		if !l.lossy(t.At) {
			l.broken("gap", t.At, "the feed is said to have dropped commits up to %v, and nothing was lost", g.Now)
		}
		l.whole = append(l.whole, l.last, g.Now)
		l.gap = g
		return
	}
	if _, again := l.seen[g.Before]; again {
		l.verdict.Again++
		return
	}
	i, is := l.place[g.Before]
	switch {
	case g.After != l.last && l.gap == nil:
		l.broken("gap", t.At, "commits behind %v are said to be missing, and the last one was %v", g.After, l.last)
	case !l.lossy(t.At) && (!is || i > 0):
		l.broken("gap", t.At, "commits between %v and %v are said to be missing, and the journal has dropped none there", g.After, g.Before)
	}
	l.gap = g
}

// lossy reports whether Redis may have lost a commit that a reader got at that time or before.
func (l *listener) lossy(at time.Duration) bool {
	return slices.ContainsFunc(l.history.Faults, func(f Fault) bool {
		return f.Loses && at >= f.Since || f.Splits && at >= f.From-unreplicated
	})
}

// complete judges whether the reader got each commit of the journal, or a gap without end that covers it.
func (l *listener) complete() {
	for i, e := range l.journal {
		p := e.point()
		if _, told := l.seen[p]; !told && !l.covered(i) {
			l.broken("missing", l.history.End, "%v was never told: %s", p, changes(e.Changes))
		}
	}
}

// covered reports whether a gap without end covers an entry of the journal.
func (l *listener) covered(i int) bool {
	for n := 0; n < len(l.whole); n += 2 {
		from, known := l.place[l.whole[n]]
		to, there := l.place[l.whole[n+1]]
		if (!known || from < i) && (!there || i <= to) {
			return true
		}
	}
	return false
}
