package store

import (
	"fmt"
	"slices"
	"strings"
)

// phase is what a writer is doing.
type phase int

const (
	idle       phase = iota // nothing waits
	ready                   // it is going to commit
	committing              // it waits for what becomes of its commit
	acquiring               // of its request for the lock
	inheriting              // of the burial of tokens, in the middle of one of the two
	waiting                 // it waits in the queue
	ahead                   // it waits there, and nobody waits for it
	over                    // it has done all
	dead
)

// writer is a node's worker with its slot; see worker.go, apply.go and commit.go of package coordinator, and slot.go and
// tokens.go of package lockmgr. Its slices do not change.
type writer struct {
	// Of the slot.
	token    string
	doubts   []string // tokens
	underway bool     // a request for the token was not answered
	promised bool
	tokens   int // made so far

	// Of the worker.
	phase        phase
	copy         *copied
	held, inLine bool
	queue        []string // actions that wait
	todo         []string // actions that come later
	batch        []string
	more         bool // others wait behind the batch
	content      *content
	contents     int    // made so far
	hold, next   string // the commit's token, if it has one, and the next hold's
	resent       bool   // the worker has sent the commit again
	behind       int    // how often in a row its commits found another room
	deaf         bool   // it did not hear of that
	excused      bool   // Redis was not told that it gives up
}

func (s *state) renew(i int) {
	w := &s.writers[i]
	w.token = fmt.Sprintf("t%d.%d", i, w.tokens)
	w.tokens++
	w.doubts, w.underway, w.promised = nil, false, false
}

// ask sends a request that names the slot's token, as tokens.MarshalBinary does.
func (s *state) ask(i int, kind string) {
	w := &s.writers[i]
	if w.underway {
		doubts := append(slices.Clip(w.doubts), w.token)
		promised := w.promised
		s.renew(i)
		w.doubts, w.promised = doubts, promised
	}
	w.underway = true
	r := request{kind: kind, token: w.token, writer: i, incarnation: s.db.incarnation}
	switch kind {
	case "inherit":
		r.ids = strings.Join(w.doubts, ",")
	case "acquire":
		r.copied = w.copy != nil
	case "commit":
		r.content = w.content
	}
	s.send(r)
}

// write sends the writer's commit.
func (s *state) write(i int) {
	w := &s.writers[i]
	w.phase = committing
	if w.hold == "" {
		s.ask(i, "commit")
		return
	}
	s.send(request{kind: "commit", token: w.hold, writer: i, incarnation: s.db.incarnation, content: w.content, resent: w.resent})
}

// leave gives up, and goes on before Redis has answered.
func (s *state) abandon(i int) {
	w := &s.writers[i]
	ids := w.doubts
	if w.underway || w.promised {
		ids = append(slices.Clip(ids), w.token)
	}
	s.send(request{kind: "abandon", token: w.token, writer: i, ids: strings.Join(ids, ",")})
	w.held, w.inLine = false, false
	s.renew(i)
}

// abandon gives up a commit.
func (s *state) abandonCommit(i int) {
	if w := s.writers[i]; w.hold != "" {
		s.send(request{kind: "abandon", token: w.hold, writer: i})
	} else {
		s.abandon(i)
	}
}

// serve goes on until there is something to wait for, or a choice.
func (s *state) serve(i int) {
	w := &s.writers[i]
	s.finish(i)
	if len(w.queue) == 0 && w.inLine {
		s.abandon(i)
	}
	switch {
	case len(w.queue) == 0 && len(w.todo) == 0:
		w.phase, w.copy = over, nil
	case len(w.queue) == 0:
		w.phase = idle
	case w.copy != nil && (w.held || !w.inLine):
		w.phase = ready
	default:
		w.phase, w.held, w.inLine = acquiring, false, true
		s.ask(i, "acquire")
	}
}

// commit applies what waits to the writer's copy, and sends it.
func (e *explorer) commit(s *state, i int) {
	w := &s.writers[i]
	n := min(e.rules.maxBatch, len(w.queue))
	w.batch, w.queue = w.queue[:n:n], w.queue[n:]
	w.more = len(w.queue) > 0
	if w.held {
		e.begin(s, i)
	}
	e.apply(s, i)
}

// begin makes the token that of the commit's hold.
func (e *explorer) begin(s *state, i int) {
	w := &s.writers[i]
	w.hold, w.held, w.inLine = w.token, false, false
	s.renew(i)
	if w.more || e.rules.lookahead {
		w.next = w.token
	}
}

func (e *explorer) apply(s *state, i int) {
	w := &s.writers[i]
	id := fmt.Sprintf("c%d.%d", i, w.contents)
	w.contents++
	w.resent = false
	if e.rules.idOfHold {
		id = fmt.Sprintf("c%d.0", i)
	}
	h := Hold{Node: fmt.Sprintf("n%d", i), Token: w.hold, Next: w.next, OnlyQueue: w.next != "" && !w.more}
	switch {
	case w.behind >= e.rules.behind:
	case e.rules.hears && !w.deaf:
		h.OnConflict = WaitOnConflict
	default:
		h.OnConflict = ReadOnConflict
	}
	w.content = prepare(e.t, e.store, w.copy, w.batch, h, id)
	e.copies[w.content.after.at.CommitID] = w.content.after
	s.write(i)
}

// answer has a writer go on after a reply.
func (e *explorer) answer(s *state, r request, reply []any) {
	w := &s.writers[r.writer]
	if r.kind == "commit" && w.hold != "" {
		e.outcome(s, r, reply)
		return
	}
	w.underway = false
	switch {
	case r.kind == "inherit":
		w.doubts = nil
		fallthrough
	case len(w.doubts) > 0:
		e.goOn(s, r)
	case r.kind == "commit":
		e.outcome(s, r, reply)
	case reply[0] == "queued":
		w.phase = waiting
	default:
		w.held = true
		if len(reply) > 1 {
			w.copy = copyOf(read(e.t, e.store, r.incarnation, reply[1:]))
		}
		s.serve(r.writer)
	}
}

// goOn sends what comes next where requests are in doubt: their burial, or what was asked, again.
func (e *explorer) goOn(s *state, r request) {
	w := &s.writers[r.writer]
	switch {
	case len(w.doubts) > 0:
		w.phase = inheriting
		s.ask(r.writer, "inherit")
	case w.content != nil:
		s.write(r.writer)
	default:
		w.phase = acquiring
		s.ask(r.writer, "acquire")
	}
}

// outcome has a writer go on when it knows what became of its commit.
func (e *explorer) outcome(s *state, r request, reply []any) {
	i := r.writer
	w := &s.writers[i]
	switch reply[0] {
	case "done":
		at := nextTokens[reply[1]]
		e.acknowledge(s, w)
		w.copy, w.held, w.inLine, w.behind = w.content.after, at == NextHolds, w.next != "" && at != NextNowhere, 0
		lined := w.inLine && !w.held
		more := w.more
		s.finish(i)
		switch {
		case lined && more:
			w.phase = waiting
		case lined:
			w.phase = ahead
		default:
			s.serve(i)
		}
	case "queued":
		s.requeue(i)
		w.inLine, w.phase = true, waiting
	case "lost":
		s.requeue(i)
		s.serve(i)
	case "stale":
		if w.resent { // a token that may be on its way twice is not used for anything else
			s.abandonCommit(i)
			s.requeue(i)
			s.serve(i)
			return
		}
		if w.hold == "" {
			e.begin(s, i)
		}
		e.found(w, r, reply)
		e.apply(s, i)
	case "conflict":
		w.behind++
		if len(reply) > 1 {
			w.deaf = false
			e.found(w, r, reply)
		} else if heard := e.copies[s.db.meta["mark"]]; heard != nil && w.copy.at.Precedes(heard.at) {
			w.copy = heard.renewing(w.copy.renew && w.copy.at.Epoch == heard.at.Epoch)
		} else {
			w.deaf = true
		}
		s.requeue(i)
		s.serve(i)
	default:
		e.t.Fatalf("%s: %v", r.text, reply)
	}
}

// found makes the writer's copy the room that a commit has found.
func (e *explorer) found(w *writer, r request, reply []any) {
	now := read(e.t, e.store, r.incarnation, reply[1:])
	if w.copy.at.Lost(now.Position) {
		now.Renew()
	}
	w.copy = copyOf(now)
}

// finish ends a batch.
func (s *state) finish(i int) {
	w := &s.writers[i]
	w.batch, w.content, w.hold, w.next, w.resent, w.more = nil, nil, "", "", false, false
}

func (s *state) requeue(i int) {
	w := &s.writers[i]
	w.queue = slices.Concat(w.batch, w.queue)
	s.finish(i)
}

// acknowledge tells the callers of a batch that it is done.
func (e *explorer) acknowledge(s *state, w *writer) {
	for _, action := range w.content.actions {
		if w.content.writes && !slices.Contains(s.db.written, action) {
			e.fault = action + " is acknowledged, and is not in the room"
		}
	}
}

// refuse tells the callers of actions that these do not happen.
func (e *explorer) refuse(s *state, actions ...string) {
	s.refused = slices.Concat(s.refused, actions)
	slices.Sort(s.refused)
	e.checkRefused(s)
}

func (e *explorer) checkRefused(s *state) {
	for _, action := range s.refused {
		if slices.Contains(s.db.written, action) {
			e.fault = action + " was refused, and is in the room"
		}
	}
}

// giveUp ends a commit whose outcome is unknown.
func (s *state) giveUp(i int) {
	w := &s.writers[i]
	s.abandonCommit(i)
	w.copy = nil
	if w.hold != "" && w.next != "" {
		w.inLine, w.promised = true, true
	}
	s.serve(i)
}
