package store

import (
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// bounds are how often what can go wrong does.
type bounds struct {
	unanswered int // a request is late, so that its writer goes on without the reply; it may arrive at any time, or never
	expiries   int // of the lock or a claim
	crashes    int // of a writer
	failovers  int // to a copy of an earlier state
	giveUps    int // an action has waited for too long, or a request fails for good
	foreign    int // a client that knows nothing of the queue acquires the lock
}

// state is all that matters for what can happen. Of a room that is which commits it has, whatever these say: it needs no model of what rooms allow.
type state struct {
	db, replica *server // replica is the state that a failover goes back to
	writers     []writer
	net         []request
	wakes       []string // tokens that are told that they have the lock
	refused     []string // actions that were answered not to happen
	left        bounds
}

func (s *state) clone() *state {
	c := *s
	c.writers, c.net, c.wakes = slices.Clone(s.writers), slices.Clone(s.net), slices.Clone(s.wakes)
	return &c
}

func (s *state) send(r request) { s.net = append(s.net, r.named()) }

// prune drops wake-ups that nobody heeds.
func (s *state) prune() {
	s.wakes = slices.DeleteFunc(s.wakes, func(token string) bool {
		return !slices.ContainsFunc(s.writers, func(w writer) bool { return w.token == token && w.phase < over })
	})
	slices.Sort(s.wakes)
	s.wakes = slices.Compact(s.wakes)
}

// key tells states apart, but for the numbers in the names of tokens and commits.
func (s *state) key() string {
	var b strings.Builder
	b.WriteString(s.db.text)
	if s.replica != nil {
		b.WriteString(" replica ")
		b.WriteString(s.replica.text)
	}
	for i := range s.writers {
		w := &s.writers[i]
		fmt.Fprint(&b, "\n", w.token, w.doubts, w.underway, w.promised, " ", int(w.phase), w.held, w.inLine, w.queue, w.todo, w.batch, w.more, w.hold, " ", w.next, w.resent, w.excused, w.behind, w.deaf)
		if w.copy != nil {
			b.WriteString(w.copy.text)
		}
		if w.content != nil {
			b.WriteString(w.content.text)
		}
	}
	texts := make([]string, len(s.net))
	for i, r := range s.net {
		texts[i] = r.text
	}
	sort.Strings(texts)
	fmt.Fprint(&b, texts, s.wakes, s.refused, s.left)
	return renumbered(b.String())
}

// renumbered gives the names of tokens (t0.7) and commits (c0.7) in a text numbers in the order in which they come.
func renumbered(text string) string {
	var b strings.Builder
	b.Grow(len(text))
	names := make(map[string]string)
	from := 0
	for i := 1; i < len(text)-3; i++ {
		if (text[i] != 't' && text[i] != 'c') || text[i+2] != '.' || text[i+1] < '0' || text[i+1] > '9' {
			continue
		}
		end := i + 3
		for end < len(text) && text[end] >= '0' && text[end] <= '9' {
			end++
		}
		if end == i+3 {
			continue
		}
		name := text[i:end]
		number, ok := names[name]
		if !ok {
			number = text[i:i+3] + strconv.Itoa(len(names))
			names[name] = number
		}
		b.WriteString(text[from:i])
		b.WriteString(number)
		from, i = end, end-1
	}
	b.WriteString(text[from:])
	return b.String()
}

// isOver reports whether nothing is going on any more, but that late requests may arrive.
func (s *state) isOver() bool {
	return !slices.ContainsFunc(s.net, func(r request) bool { return !r.late }) &&
		!slices.ContainsFunc(s.writers, func(w writer) bool { return w.phase < over })
}

// isExcused reports whether only time may end what is in Redis: a writer has died, or Redis has lost something.
func (s *state) isExcused() bool {
	return s.db.incarnation != "i0" || slices.ContainsFunc(s.writers, func(w writer) bool { return w.phase == dead || w.excused })
}

// leftBehind returns what a writer has left in Redis, although nothing has gone wrong that allows it.
func (s *state) leftBehind() string {
	if s.isExcused() {
		return ""
	}
	for _, token := range slices.Concat([]string{s.db.holder}, s.db.queue) {
		if !strings.HasPrefix(token, "t") {
			continue
		}
		if token == s.db.holder {
			return token + " still holds the lock, and all writers have ended"
		}
		return token + " still waits for the lock, and all writers have ended"
	}
	return ""
}

// shown describes a state in a trace.
func (s *state) shown() string {
	return fmt.Sprintf("lock %q, waiting %v, buried %v, room at version %s with %v", s.db.holder, s.db.queue, s.db.buried, s.db.meta["version"], s.db.written)
}
