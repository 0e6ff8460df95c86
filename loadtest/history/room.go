package history

import (
	"sync"
	"unique"
)

// roomLog is what clients were told about one room.
type roomLog struct {
	ledger *Ledger
	name   string

	mu       sync.Mutex
	epochs   []*epochLog // guarded by mu; in the order in which they appeared
	unknowns []unknown   // guarded by mu

	unanswered []unanswered // guarded by mu
	refused    []Request    // guarded by mu; groups
	ousted     []ousted     // guarded by mu
	forgets    bool         // guarded by mu; see MayBeForgotten
}

// unknown is a request that may have been committed, at a version above after.
type unknown struct {
	user   string
	action string // Join, Leave, Away, Back or lapse
	after  uint64
}

// ack is an acknowledged join or leave.
type ack struct {
	version uint64
	user    string
	seat    int
	join    bool
}

// storedAck is an ack in less memory: a run has as many as it has actions.
type storedAck struct {
	version uint64
	user    unique.Handle[string]
	seat    int32
	join    bool
	kind    ackKind
	at      int64 // when the answer came, in ms since 1970; 0 if the run has no clock
}

// ackKind is what a storedAck is of.
type ackKind uint8

const (
	ackMoves  ackKind = iota // a join or a leave of user
	ackStays                 // a request that moves nobody
	ackGone                  // a request after which user is not in the room
	ackCloses                // a request after which nobody is
)

// addUnknown adds a request, Join, Leave or Away, that may have been committed at a version
// above after: the version of the last reply that the user got before sending it. Zero
// is always safe.
func (r *roomLog) addUnknown(user, action string, after uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unknowns = append(r.unknowns, unknown{user, action, after})
}

// acknowledge adds an acknowledged join or leave.
func (r *roomLog) acknowledge(epoch string, a ack) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.epochLocked(epoch, a.version)
	e.top = max(e.top, a.seat)
	e.acks = append(e.acks, storedAck{version: a.version, user: unique.Make(a.user), seat: int32(a.seat), join: a.join, at: r.ledger.now()})
}

// observe adds the list that o saw at the version. The log keeps its fingerprint.
func (r *roomLog) observe(epoch string, version uint64, list *roster, c content, o observer) {
	if epoch == "" && version == 0 && list.print.count == 0 {
		return // a room that nobody has joined yet
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.observeLocked(r.epochLocked(epoch, version), version, list, c, o)
}

func (r *roomLog) observeLocked(e *epochLog, version uint64, list *roster, c content, o observer) {
	w, print := e.at(version), list.print
	e.top = max(e.top, list.top)
	e.ruled = e.ruled || c.rules != 0
	switch {
	case w.has&hasPrint == 0 && w.has&hasCount != 0 && int(w.count) != print.count:
		r.disagreeLocked(e, version, "%s got a count of %d, %s sees %d users",
			r.ledger.observerName(w.listBy), w.count, r.ledger.observerName(o), print.count)
	case w.has&hasPrint == 0:
		w.has |= hasPrint | hasCount
		w.sum, w.count, w.listBy, w.content = print.sum, int32(print.count), o, c
	case w.sum != print.sum || int(w.count) != print.count:
		r.disagreeLocked(e, version, "%s sees %d users, %s sees %d, and the lists differ",
			r.ledger.observerName(w.listBy), w.count, r.ledger.observerName(o), print.count)
	default:
		if what := w.content.differs(c); what != "" {
			r.disagreeLocked(e, version, "%s and %s see other %s", r.ledger.observerName(w.listBy), r.ledger.observerName(o), what)
		}
		w.content.rules = max(w.content.rules, c.rules)
	}
}

// observeCount adds the count of a reply without a list.
func (r *roomLog) observeCount(epoch string, version uint64, count int, o observer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.epochLocked(epoch, version)
	switch w := e.at(version); {
	case w.has&hasCount == 0:
		w.has |= hasCount
		w.count, w.listBy = int32(count), o
	case int(w.count) != count:
		r.disagreeLocked(e, version, "%s has a count of %d, %s got %d",
			r.ledger.observerName(w.listBy), w.count, r.ledger.observerName(o), count)
	}
}

// commit adds an event that v got, with the private messages in it, and the list that v has
// after it if that can be trusted.
func (r *roomLog) commit(ev Event, private []Change, v *View, trusted bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, o := r.epochLocked(ev.Epoch, ev.Version), v.observer
	e.heard.hear(o, v.user, ev, private)
	if ev.Version-ev.From > 1 {
		if !e.addSpan(ev) {
			r.disagreeLocked(e, ev.Version, "%s got other changes since version %d than others",
				r.ledger.observerName(o), ev.From)
		}
	} else if w := e.at(ev.Version); w.has&hasCommit == 0 {
		e.store(ev.Version, ev.Changes, o)
	} else if !e.stored(ev.Version).equal(ev.Changes) {
		r.disagreeLocked(e, ev.Version, "%s got other changes than %s", r.ledger.observerName(o), r.ledger.observerName(w.commitBy))
	}
	if trusted {
		r.observeLocked(e, ev.Version, &v.roster, v.matter.of(&v.roster), o)
	}
}

// disagreeLocked reports that two sources contradict each other about a version.
func (r *roomLog) disagreeLocked(e *epochLog, version uint64, format string, args ...any) {
	e.at(version).has |= disputed
	r.found(Diverged, e.name, version, "", format, args...)
}

// epochLocked returns the log of the epoch, of which version was seen. A room has only
// one epoch, unless the store has lost data.
func (r *roomLog) epochLocked(name string, version uint64) *epochLog {
	for _, e := range r.epochs {
		if e.name == name {
			return e
		}
	}
	if len(r.epochs) > 0 && !r.ledger.options.DataLoss {
		r.ledger.violations.report(place{VersionGap, r.name, name, 0, ""}, version, "the room went from epoch %q to %q", r.epochs[0].name, name)
	}
	e := newEpochLog(name)
	r.epochs = append(r.epochs, e)
	return e
}

// found reports a violation at a version of the room.
func (r *roomLog) found(kind Kind, epoch string, version uint64, subject, format string, args ...any) {
	r.ledger.violations.report(place{kind, r.name, epoch, version, subject}, version, format, args...)
}

// fault reports what a roster found at a version of the room.
func (r *roomLog) fault(epoch string, version uint64, f fault) {
	p := place{f.kind, r.name, epoch, version, f.subject}
	if f.lasting {
		p.version = 0
	}
	r.ledger.violations.report(p, version, "%s", f.text)
}

// lost reports that an acknowledged join or leave did not happen.
func (r *roomLog) lost(epoch string, version uint64, c Change) {
	if c.Type == Join {
		r.found(Lost, epoch, version, c.User, "%s's acknowledged join is missing from the list (seat %d)", c.User, c.Seat)
	} else {
		r.found(Lost, epoch, version, c.User, "%s's acknowledged leave is missing: still in the list", c.User)
	}
}
