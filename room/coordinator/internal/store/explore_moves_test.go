package store

import (
	"fmt"
	"slices"
)

// moves returns all that can happen next.
func (e *explorer) moves(s *state) (all []move) {
	for at, r := range s.net {
		if !slices.ContainsFunc(s.net[:at], func(o request) bool { return o.text == r.text }) {
			all = append(all, e.arrivals(s, at)...)
		}
	}
	for i := range s.writers {
		all = append(all, e.choices(s, i)...)
	}
	return append(all, e.world(s)...)
}

func who(i int) string { return "writer " + string(rune('A'+i)) }

func (r request) String() string {
	what := r.kind
	switch {
	case r.kind == "commit" && r.content.args[0] == "":
		what = fmt.Sprintf("commit %v of its hold", r.content.actions)
	case r.kind == "commit":
		what = fmt.Sprintf("commit %v", r.content.actions)
	}
	if r.late {
		what = "late " + what
	}
	text := fmt.Sprintf("%s's %s (%s", who(r.writer), what, r.token)
	if r.ids != "" {
		text += ", to be buried: " + r.ids
	}
	return text + ")"
}

// arrivals are what can become of a request.
func (e *explorer) arrivals(s *state, at int) (all []move) {
	r := s.net[at]
	i := r.writer
	all = append(all, move{r.String() + " arrives", func(s *state) {
		s.net = slices.Delete(s.net, at, at+1)
		effect := e.x.run(e.t, s.db, r)
		s.db, s.wakes, e.fault = effect.server, append(s.wakes, effect.wakes...), effect.fault
		if !r.late && r.kind != "abandon" {
			e.answer(s, r, effect.reply)
		}
	}})
	if r.late || s.left.unanswered == 0 {
		return all
	}
	if r.kind == "abandon" {
		return append(all, move{r.String() + " is lost", func(s *state) {
			s.left.unanswered--
			s.net = slices.Delete(s.net, at, at+1)
			s.writers[i].excused = true
		}})
	}
	unanswered := func(what string, then func(s *state)) {
		all = append(all, move{r.String() + " is late; " + what, func(s *state) {
			s.left.unanswered--
			s.delay(at)
			then(s)
		}})
	}
	held := r.kind == "commit" && s.writers[i].hold != ""
	switch {
	case held:
		unanswered("the client sends it again", func(s *state) { s.write(i) })
		unanswered("the worker sends it again", func(s *state) { s.writers[i].resent = true; s.write(i) })
	case r.kind == "inherit":
		unanswered("it is sent again", func(s *state) { s.ask(i, "inherit") })
		fallthrough
	default:
		unanswered("what was asked is sent again", func(s *state) {
			if s.writers[i].content != nil {
				s.write(i)
			} else {
				s.writers[i].phase = acquiring
				s.ask(i, "acquire")
			}
		})
	}
	if s.left.giveUps == 0 {
		return all
	}
	if s.writers[i].content != nil {
		unanswered("the worker gives up, its outcome is unknown", func(s *state) { s.left.giveUps--; s.giveUp(i) })
	} else {
		unanswered("the worker gives up", func(s *state) {
			s.left.giveUps--
			s.abandon(i)
			e.refuse(s, s.writers[i].queue...)
			s.writers[i].queue = nil
			s.serve(i)
		})
	}
	return all
}

// delay makes a request late.
func (s *state) delay(at int) {
	r := s.net[at]
	r.late = true
	s.net[at] = r.named()
}

// choices are what a writer can do.
func (e *explorer) choices(s *state, i int) (all []move) {
	w := s.writers[i]
	add := func(what string, do func(s *state)) { all = append(all, move{who(i) + " " + what, do}) }
	if w.phase == over || w.phase == dead {
		return nil
	}
	if len(w.todo) > 0 {
		add("is asked for "+w.todo[0], func(s *state) {
			w := &s.writers[i]
			w.queue, w.todo = append(slices.Clip(w.queue), w.todo[0]), w.todo[1:]
			if w.phase == idle || w.phase == ahead {
				s.serve(i)
			}
		})
	}
	if s.left.giveUps > 0 && len(w.queue) > 0 && (w.phase == ready || w.phase == waiting) {
		add("has had "+w.queue[0]+" wait for too long", func(s *state) {
			s.left.giveUps--
			w := &s.writers[i]
			e.refuse(s, w.queue[0])
			w.queue = w.queue[1:]
			if len(w.queue) == 0 {
				s.serve(i)
			}
		})
	}
	if s.left.crashes > 0 {
		add("dies", func(s *state) { s.left.crashes--; s.die(i) })
	}
	awake := slices.Contains(s.wakes, w.token)
	wake := func(s *state) {
		s.wakes = slices.DeleteFunc(s.wakes, func(t string) bool { return t == w.token })
		s.writers[i].held = true
		s.serve(i)
	}
	switch w.phase {
	case ready:
		add(fmt.Sprintf("applies %v to version %d", w.queue, w.copy.at.Version), func(s *state) { e.commit(s, i) })
		if now := e.current(s); now.at.Epoch == w.copy.at.Epoch && now.at.Version > w.copy.at.Version {
			add(fmt.Sprintf("hears events, applies %v to version %d", w.queue, now.at.Version), func(s *state) {
				s.writers[i].copy = now
				e.commit(s, i)
			})
		}
	case waiting:
		if awake {
			add("is woken", wake)
		}
		add("asks whether it has the lock", func(s *state) { s.writers[i].phase = acquiring; s.ask(i, "acquire") })
	case ahead:
		if awake {
			add("is woken", wake)
		}
		add("waits no longer", func(s *state) { s.serve(i) })
	}
	return all
}

// die ends a writer. What it has sent may still arrive.
func (s *state) die(i int) {
	for at, r := range s.net {
		if r.writer == i && !r.late {
			s.delay(at)
		}
	}
	s.writers[i] = writer{phase: dead}
}

// current returns the copy of who has heard all events.
func (e *explorer) current(s *state) *copied {
	return copyOf(read(e.t, e.store, s.db.meta["incarnation"], reply(s.db.meta, s.db.users)))
}

// reply returns a room as a script does.
func reply(meta, users map[string]string) []any {
	all := make([]any, 0, 12)
	for _, field := range []string{"epoch", "version", "mark", "members", "settings", "data", "bans", "gone", "timers", "host", "incarnation"} {
		var value any
		if text, ok := meta[field]; ok {
			value = text
		}
		all = append(all, value)
	}
	var members []any
	for user, member := range users {
		members = append(members, user, member)
	}
	return append(all, members)
}

// world is what happens without the writers.
func (e *explorer) world(s *state) (all []move) {
	set := func(what string, holder string, count func(*bounds)) {
		all = append(all, move{what, func(s *state) {
			count(&s.left)
			db := *s.db
			db.holder = holder
			s.db = db.done()
		}})
	}
	if s.db.holder != "" && s.left.expiries > 0 {
		set("the hold of "+s.db.holder+" expires", "", func(b *bounds) { b.expiries-- })
	}
	if s.db.holder == "" && s.left.foreign > 0 {
		set("a foreign client takes the lock", foreignToken, func(b *bounds) { b.foreign-- })
	}
	if s.db.holder == foreignToken {
		set("the foreign client deletes the lock", "", func(*bounds) {})
	}
	if s.left.failovers == 0 {
		return all
	}
	if s.replica == nil {
		all = append(all, move{"the replica falls behind", func(s *state) { s.replica = s.db }})
	} else {
		all = append(all, move{"the replica takes over", func(s *state) { s.failOver() }})
	}
	return all
}

// failOver replaces the server by one that has the replica's state. That does not know scripts for the
// server before: who waits for an answer sends for the new one, and what is late is not carried out.
func (s *state) failOver() {
	s.left.failovers--
	db := *s.replica
	db.incarnation = fmt.Sprintf("later%d", s.left.failovers)
	s.db, s.replica = db.done(), nil
	kept := s.net[:0]
	for _, r := range s.net {
		bound := r.kind == "commit" || r.kind == "acquire"
		if bound && r.late {
			continue
		} else if bound {
			r.incarnation = s.db.incarnation
		}
		kept = append(kept, r.named())
	}
	s.net = kept
}
