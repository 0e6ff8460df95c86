package lab

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"roomd/loadtest/lab/anomaly"
)

// timeline is a history as a picture: a lane for the lock in Redis, one for each caller,
// and one for the list. The page draws it.
type timeline struct {
	Width, Height int
	Lanes         []lane
	Bars          []bar
	Marks         []mark
	Lists         []written
	Cut           bool // there are more events
}

type lane struct {
	Name string
	Y    int
}

// bar is a span of time in a lane.
type bar struct {
	X, Y, W, H  int
	Class, Text string
}

func (b bar) layer() int {
	if b.Class == classPaused {
		return 1
	}
	return 0
}

// mark is a moment in a lane.
type mark struct {
	X, Y               int
	Class, Glyph, Text string
}

// written is a state of the list.
type written struct {
	Number int
	At     string // in published seconds
	By     string
	Users  []member
}

// member is a user in a list. Twice: the user is in it already. Lost, BackAgain: another
// user's write removed the user, or brought the user back.
type member struct {
	Name                   string
	Lost, BackAgain, Twice bool
}

// Geometry, in pixels.
const (
	laneHeight  = 30
	laneStart   = 78
	timelineTop = 16
	moment      = 17 // between two events, at least
	decade      = 26 // added for each power of ten in ms
	ownerWidth  = 44 // of a bar with room for its owner's name
	maxEvents   = 60
)

// sketch is a timeline in the making.
type sketch struct {
	timeline
	timescale
	events []anomaly.Event
	at     []int          // of each event, its x
	lanes  map[string]int // y of each caller's
	class  map[string]string
}

func newTimeline(h anomaly.History, second time.Duration) *timeline {
	s := &sketch{timescale: timescale{second}, events: h.Events, lanes: make(map[string]int), class: make(map[string]string)}
	if len(s.events) > maxEvents {
		s.events, s.Cut = s.events[:maxEvents], true
	}
	s.place()
	s.lay()
	s.drawLock()
	for _, l := range s.Lanes[1 : len(s.Lanes)-1] {
		s.drawCaller(l.Name)
	}
	s.drawList(h.Initial)
	// Hatched bars are on top.
	slices.SortStableFunc(s.Bars, func(a, b bar) int {
		return cmp.Compare(a.layer(), b.layer())
	})
	return &s.timeline
}

// place gives each event its x. It shortens long times and keeps events apart.
func (s *sketch) place() {
	x, before := laneStart+8, time.Duration(0)
	for _, e := range s.events {
		gap := float64(e.At-before) / float64(time.Millisecond)
		x += moment + int(decade*math.Log10(1+max(0, gap)))
		s.at = append(s.at, x)
		before = e.At
	}
	s.Width = x + 2*moment
}

// lay adds the lanes.
func (s *sketch) lay() {
	y := timelineTop
	add := func(name string) int {
		s.Lanes = append(s.Lanes, lane{name, y + laneHeight/2})
		y += laneHeight
		return y - laneHeight
	}
	add("lock")
	for _, e := range s.events {
		if _, known := s.lanes[e.Caller]; e.Kind == anomaly.Asked && !known {
			s.class[e.Caller] = fmt.Sprintf("c%d", len(s.lanes)%callerColors)
			s.lanes[e.Caller] = add(e.Caller)
		}
	}
	add("list")
	s.Height = y + 4
}

// What the page has styles for.
const (
	callerColors = 6 // c0, c1, …
	classPaused  = "paused"
	classAsked   = "asked"
)

// span adds a bar between two events.
func (s *sketch) span(from, to, y, height int, class, text string) {
	s.Bars = append(s.Bars, bar{s.at[from], y + (laneHeight-height)/2, max(2, s.at[to]-s.at[from]), height, class, text})
}

func (s *sketch) note(i, y int, class, glyph, text string) {
	s.Marks = append(s.Marks, mark{s.at[i], y + laneHeight/2 + 4, class, glyph, fmt.Sprintf("%s: %s", s.published(s.events[i].At), text)})
}

// drawLock draws who held the key, and how each hold ended.
func (s *sketch) drawLock() {
	from, owner := -1, ""
	end := func(to int) {
		if from >= 0 {
			s.span(from, to, timelineTop, 18, s.class[owner], owner)
			if middle := (s.at[from] + s.at[to]) / 2; s.at[to]-s.at[from] > ownerWidth {
				s.Marks = append(s.Marks, mark{middle, timelineTop + laneHeight/2 + 4, "owner", owner, owner})
			}
		}
		from = -1
	}
	for i, e := range s.events {
		switch e.Kind {
		case anomaly.Locked:
			end(i)
			from, owner = i, e.Owner
		case anomaly.Unlocked:
			end(i)
			if e.Caller != e.Owner {
				s.note(i, timelineTop, "bad", "✂", e.Caller+" deletes "+e.Owner+"'s lock")
			}
		case anomaly.Expired:
			end(i)
			s.note(i, timelineTop, "", "⌛", e.Owner+"'s lock expires")
		case anomaly.Forgotten:
			end(i)
			s.note(i, timelineTop, "bad", "⚡", "Redis fails over, and "+e.Owner+"'s lock is gone")
		case anomaly.Refreshed:
			s.note(i, timelineTop, "bad", "↻", fmt.Sprintf("%s prolongs %s's lock, %d times in a row", e.Caller, e.Owner, max(1, e.Times)))
		}
	}
	end(len(s.events) - 1)
}

// glyphs are the marks of what callers do.
var glyphs = map[anomaly.Kind]struct{ glyph, class string }{
	anomaly.Asked: {"?", ""}, anomaly.Refused: {"…", ""}, anomaly.Acquired: {"●", ""},
	anomaly.Read: {"R", ""}, anomaly.Wrote: {"W", ""}, anomaly.Released: {"○", ""},
	anomaly.ToldOK: {"✓", "good"}, anomaly.ToldFailed: {"✗", "bad"}, anomaly.ToldUnknown: {"≈", ""},
	anomaly.Crashed: {"☠", "bad"}, anomaly.ReplyLost: {"↯", "bad"},
}

// drawCaller draws how long a caller waited, held the lock and was stopped, and what it
// did.
func (s *sketch) drawCaller(caller string) {
	y := s.lanes[caller]
	asked, held, paused := -1, -1, -1
	finish := func(from *int, to, height int, class, text string) {
		if *from >= 0 {
			s.span(*from, to, y, height, class, text)
		}
		*from = -1
	}
	for i, e := range s.events {
		switch {
		case e.Kind == anomaly.Locked && e.Owner == caller && held < 0:
			held = i
		case e.Caller != caller:
			continue
		}
		switch e.Kind {
		case anomaly.Asked:
			asked = i
		case anomaly.Acquired:
			if held < 0 {
				held = i
			}
		case anomaly.Paused:
			paused = i
		case anomaly.Resumed:
			finish(&paused, i, 10, classPaused, caller+" is stopped")
		case anomaly.Released, anomaly.ToldOK, anomaly.ToldFailed, anomaly.ToldUnknown, anomaly.Crashed:
			finish(&held, i, 10, s.class[caller], caller+" believes that it has the lock")
			if e.Kind != anomaly.Released {
				finish(&paused, i, 10, classPaused, caller+" is stopped")
				finish(&asked, i, 2, classAsked, caller+" waits for its answer")
			}
		}
		if g, ok := glyphs[e.Kind]; ok {
			s.note(i, y, g.class, g.glyph, describe(e))
		}
	}
	last := len(s.events) - 1
	finish(&held, last, 10, s.class[caller], caller+" believes that it has the lock")
	finish(&asked, last, 2, classAsked, caller+" waits for its answer")
}

// drawList numbers the states of the list, and marks who was lost by each write.
func (s *sketch) drawList(initial []string) {
	y := s.Lanes[len(s.Lanes)-1].Y - laneHeight/2
	observed := slices.ContainsFunc(s.events, func(e anomaly.Event) bool { return e.Kind == anomaly.Stored })
	before := initial
	for i, e := range s.events {
		if e.Kind != anomaly.Stored && (observed || e.Kind != anomaly.Wrote) {
			continue
		}
		w := written{Number: len(s.Lists) + 1, At: s.published(e.At), By: e.Caller}
		class := ""
		for i, user := range e.Users {
			back := user != e.Caller && !slices.Contains(before, user)
			w.Users = append(w.Users, member{Name: user, BackAgain: back, Twice: slices.Contains(e.Users[:i], user)})
		}
		for _, user := range before {
			if user != e.Caller && !slices.Contains(e.Users, user) {
				w.Users = append(w.Users, member{Name: user, Lost: true})
			}
		}
		if slices.ContainsFunc(w.Users, func(m member) bool { return m.Lost || m.BackAgain || m.Twice }) {
			class = "bad"
		}
		s.Lists = append(s.Lists, w)
		s.note(i, y, class, fmt.Sprint(w.Number), e.Caller+" writes "+cmp.Or(strings.Join(e.Users, " "), "no list"))
		before = e.Users
	}
}

// published returns a time in published seconds, which are the lock's.
func (t timescale) published(d time.Duration) string {
	return fmt.Sprintf("%.3f s", float64(d)/float64(t.second))
}

// describe returns an event in words.
func describe(e anomaly.Event) string {
	text := strings.TrimSpace(e.Caller + " " + string(e.Kind))
	switch {
	case e.Kind == anomaly.Asked && e.Leave:
		text += " to leave"
	case e.Kind == anomaly.Asked:
		text += " to join"
	case e.Kind == anomaly.Read, e.Kind == anomaly.Wrote, e.Kind == anomaly.Stored:
		text += ": " + strings.Join(e.Users, " ")
	case e.Owner != "":
		text += ": " + e.Owner + "'s lock"
	}
	if e.Times > 1 {
		text += fmt.Sprintf(", %d times", e.Times)
	}
	return text
}
