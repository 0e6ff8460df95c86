package check

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
	"golang.org/x/sync/errgroup"
)

// DefaultPatience is how long porcupine may take for one part of a room's history; for all parts together, ten
// times as long.
const DefaultPatience = 20 * time.Second

// mostInPart is about how many operations with a version a part may have, because porcupine's memory grows with
// their square.
const mostInPart = 4000

// latest is how long after its call an operation with an unknown end, or a timer, may still change a room: longer than
// any fault or timer of a run. Without this limit, the model of a long run would have to track thousands of them.
const latest = 2 * time.Minute

// Linearize judges a history without its journals: whether the operations of each epoch of each room can have
// happened one after the other, each between its call and its return. Parts that porcupine does not decide within
// patience are unsure, and so are users removed as members of a dead node, which only the journals could confirm.
//
// An operation with an unknown end may happen at any time after its call, or never. So from its call on the
// model allows its effect: on the room's data for two minutes, otherwise until the epoch ends. Its user does
// not come back, so there are never many such operations. From the last operation of a connection on, its user
// may have left. The model allows that at once, because that allows most. So porcupine need not try different
// times, which would double its work with each connection.
func Linearize(h *History, patience time.Duration) *Verdict {
	v := &Verdict{}
	var parts []*part
	believed, evicted, ops := h.believed(), h.evicted(), h.ops()
	for _, room := range h.Rooms {
		parts = append(parts, split(h, room, ops[room], believed)...)
	}
	for _, p := range parts {
		if users := evicted[roomEpoch{p.room, p.epoch}]; len(users) > 0 {
			p.instant(p.begin, step{env: shake, users: users})
			v.Unsure = append(v.Unsure, fmt.Sprintf(
				"room %s, epoch %s: %q were removed as if their node had died, and no fault says why: the machine may be too slow", p.room, short(p.epoch), users))
		}
	}
	all, end := new(errgroup.Group), time.Now().Add(10*patience)
	all.SetLimit(runtime.GOMAXPROCS(0))
	for _, p := range parts {
		all.Go(func() error { p.judge(max(1, min(patience, time.Until(end)))); return nil })
	}
	_ = all.Wait()
	for _, p := range parts {
		v.Judged += p.judged
		switch p.result {
		case porcupine.Illegal:
			v.Violations = append(v.Violations, Violation{Checker: "porcupine", Rule: "linearizability", Room: p.room,
				At: p.at, Text: p.why})
		case porcupine.Unknown:
			v.Unsure = append(v.Unsure, fmt.Sprintf(
				"room %s, epoch %s: %d operations from version %d on were not decided within %v", p.room,
				short(p.epoch), p.judged, p.low, patience))
		}
	}
	return v
}

// part is an epoch of a room, or a range of its versions if it is long. The state of the room before a part is
// unknown, except before the first.
type part struct {
	room, epoch string
	low, high   uint64 // the first and the last version
	first       bool   // the room was empty before
	steps       []porcupine.Operation
	begin, end  time.Duration // the first call, and the last return
	from, to    time.Duration // when the epoch was certainly seen: from the first return to the last call
	judged      int
	result      porcupine.CheckResult
	at          time.Duration
	why         string
}

func split(h *History, room string, ops []*Op, believed []interval) []*part {
	var parts []*part
	by := make(map[string][]*Op)
	for _, op := range ops {
		if op.Room == room && op.Outcome != Unknown && op.Version > 0 {
			by[op.Epoch] = append(by[op.Epoch], op)
		}
	}
	for epoch, list := range by {
		slices.SortFunc(list, func(a, b *Op) int { return cmp.Compare(a.Version, b.Version) })
		var p *part
		for i, op := range list {
			if i%mostInPart == 0 {
				p = nil
			}
			if p == nil && (i == 0 || op.Version > list[i-1].Version) {
				p = &part{room: room, epoch: epoch, low: op.Version, begin: op.Call, from: op.Return}
				parts = append(parts, p)
			} else if p == nil {
				p = parts[len(parts)-1]
			}
			p.high = op.Version
			p.begin, p.from, p.to, p.end = min(p.begin, op.Call), min(p.from, op.Return), max(p.to, op.Call),
				max(p.end, op.Return)
		}
	}
	slices.SortFunc(parts, func(a, b *part) int { return cmp.Compare(a.from, b.from) })
	for i, p := range parts {
		p.first = i == 0
		p.fill(h, ops, believed)
	}
	return parts
}

func (p *part) fill(h *History, ops []*Op, believed []interval) {
	names, done := make(map[string]bool), make(map[*Op]*step)
	for _, op := range ops {
		// may be in this epoch, if its version is unknown
		may := op.Call >= p.begin-latest && op.Call < p.end
		names[op.Process] = true
		for _, user := range op.Users {
			names[user] = true
		}
		if op.Action == SetTimer && op.Outcome == Done && may {
			p.perhaps(op) // it may fire in this epoch
		}
		switch {
		case op.Outcome == Unknown:
			if may {
				p.perhaps(op)
			}
		case op.Version > 0:
			if op.Epoch != p.epoch || op.Version < p.low || op.Version > p.high {
				break
			}
			p.judged++
			since := h.since(op)
			if op.Action != Read {
				s := p.add(since, op.Return, step{op: op, version: op.Version})
				if op.Outcome == Done {
					done[op] = s
				}
			}
			if op.List != nil {
				p.add(since, op.Return, step{op: op, list: op.List, version: op.Version})
			}
		case op.Outcome == Refused && op.Call > p.from && op.Return < p.to && !h.split(op):
			// not while one server may have replaced another: it may have refused by old data
			p.judged++
			if refusals[op.Code] != nil {
				p.add(op.Call, op.Return, step{op: op})
			}
		}
		if until, may := h.halfDone(op); may && op.Call < p.end && until >= p.begin {
			p.instant(op.Call, step{env: half, users: op.Users})
			if s := done[op]; s != nil {
				s.halved = true
			} else { // the half of a move in the first room is either undone or a step by itself
				p.instant(until, step{env: whole, users: op.Users, loose: op.Action == MoveOut})
			}
		}
	}
	for i, c := range h.Conns {
		b := believed[i]
		if c.Open || !names[c.User] || b.from >= p.end || b.to < p.begin {
			continue
		}
		if s := done[b.op]; s != nil {
			s.last = true
		} else {
			p.instant(b.from, step{env: loosen, users: []string{c.User}})
		}
	}
	for _, f := range h.Faults {
		if f.evicts(p.begin, p.end) {
			p.instant(f.From, step{env: storm})
			if f.Until > 0 {
				p.instant(f.Until, step{env: calm})
			}
		}
	}
	p.count()
}

// perhaps adds the possible effects of an operation with an unknown end, from its call on.
func (p *part) perhaps(op *Op) {
	switch op.Action {
	case Join, Match, Leave:
		p.instant(op.Call, step{env: shake, users: []string{op.Process}})
	case Kick, Release, Reserve, MoveIn, MoveOut:
		p.instant(op.Call, step{env: shake, users: op.Users})
	case Swap, Shuffle:
		p.instant(op.Call, step{env: unseat})
	case SetTimer: // it may fire
		if op.Value == "" {
			return
		}
		fallthrough
	case SetData:
		p.instant(op.Call, step{env: mayData, value: op.Value})
		if op.Call+latest < p.end {
			p.instant(op.Call+latest, step{env: mayNoMore, value: op.Value})
		}
	case Configure:
		p.instant(op.Call, step{env: maySettings})
	case Close:
		p.instant(op.Call, step{env: maySettings})
		p.instant(op.Call, step{env: storm}) // without an end
	}
}

func (p *part) instant(at time.Duration, s step) { p.add(at, at+1, s) }

func (p *part) add(call, end time.Duration, s step) *step {
	p.steps = append(p.steps, porcupine.Operation{ClientId: 0, Input: &s, Call: int64(call), Return: int64(end)})
	return &s
}

// count tells each step with a version how many steps with lower ones must come first. So porcupine notices a
// wrong order at once, and not only at its end.
func (p *part) count() {
	var versions, writers []uint64
	for _, o := range p.steps {
		s := o.Input.(*step)
		if s.version > 0 {
			versions = append(versions, s.version)
		}
		if s.wrote() {
			writers = append(writers, s.version)
		}
	}
	slices.Sort(versions)
	slices.Sort(writers)
	for _, o := range p.steps {
		s := o.Input.(*step)
		s.before, _ = slices.BinarySearch(versions, s.version)
		if s.list != nil {
			s.writers, _ = slices.BinarySearch(writers, s.version+1)
		}
	}
}

// judge asks porcupine, for patience at most, whether the steps have an order.
func (p *part) judge(patience time.Duration) {
	model := porcupine.Model{
		Init:  func() any { return newRoom(p) },
		Step:  func(s, in, _ any) (bool, any) { next, wrong := s.(*room).step(in.(*step)); return wrong == "", next },
		Equal: func(a, b any) bool { return a.(*room).equal(b.(*room)) },
	}
	// Refusals change nothing. Usually each of them fits into an order of all other operations. Only if one
	// does not fit, porcupine tries all orders.
	var firm, refused []porcupine.Operation
	for _, o := range p.steps {
		if s := o.Input.(*step); s.op != nil && s.version == 0 && s.op.Outcome == Refused {
			refused = append(refused, o)
		} else {
			firm = append(firm, o)
		}
	}
	var info porcupine.LinearizationInfo
	p.result, info = porcupine.CheckOperationsVerbose(model, firm, patience)
	if p.result == porcupine.Ok {
		if refused = p.unfit(longest(info), refused); len(refused) > 0 {
			firm = append(firm, refused...)
			p.result, info = porcupine.CheckOperationsVerbose(model, firm, patience)
		}
	}
	if p.result == porcupine.Illegal {
		p.explain(firm, longest(info))
	}
}

// longest returns the longest partial order that porcupine found.
func longest(info porcupine.LinearizationInfo) (order []porcupine.Operation) {
	for _, partition := range info.PartialLinearizationsOperations() {
		for _, list := range partition {
			if len(list) > len(order) {
				order = list
			}
		}
	}
	return order
}

// unfit returns the refusals that do not fit into an order between their call and return: between two steps, or
// between the operations of one version, which is one commit.
func (p *part) unfit(order, refused []porcupine.Operation) []porcupine.Operation {
	rooms := make([]*room, len(order)+1)
	rooms[0] = newRoom(p)
	for i, o := range order {
		rooms[i+1], _ = rooms[i].step(o.Input.(*step))
	}
	versions := make(map[uint64][2]int) // the first and the last step of each version
	for i, o := range order {
		if version := o.Input.(*step).version; version > 0 {
			at, begun := versions[version]
			if !begun {
				at[0] = i
			}
			versions[version] = [2]int{at[0], i + 1}
		}
	}
	return slices.DeleteFunc(refused, func(r porcupine.Operation) bool {
		fits := func(at *room) bool { return at.refuse(r.Input.(*step).op) == "" }
		first, last := place(order, r)
		for i := first; i <= last; i++ {
			if fits(rooms[i]) {
				return true
			}
			if i < last {
				if at := versions[order[i].Input.(*step).version]; at[0] == i && at[1] <= last &&
					fits(rooms[at[1]].within()) {
					return true
				}
			}
		}
		return false
	})
}

// place returns before which steps of an order a refusal may stand, from the first to the last. It stands behind all
// that ended before its call, but may stand before a step that only adds possibilities: if it fits there, it fits
// behind that step, too. The step then moves forward in the order. So no user whom it is about may have acted since.
func place(order []porcupine.Operation, refused porcupine.Operation) (first, last int) {
	last = len(order)
	acted := make(map[string]bool)
	for i, o := range order {
		s := o.Input.(*step)
		switch {
		case o.Return < refused.Call:
			if !s.env.adds() || slices.ContainsFunc(s.users, func(user string) bool { return acted[user] }) {
				first = i + 1
			}
		case s.op != nil && s.list == nil:
			acted[s.op.Process] = true
			for _, user := range s.op.Users {
				acted[user] = true
			}
		}
		if o.Call > refused.Return {
			last = min(last, i)
		}
	}
	return first, last
}

// explain reports the steps that do not fit after the longest partial order.
func (p *part) explain(all, longest []porcupine.Operation) {
	s, placed := newRoom(p), make(map[*step]bool)
	for _, o := range longest {
		s, _ = s.step(o.Input.(*step))
		placed[o.Input.(*step)] = true
	}
	var next *porcupine.Operation
	for i := range all {
		if o := &all[i]; !placed[o.Input.(*step)] && (next == nil || o.Return < next.Return) {
			next = o
		}
	}
	if next == nil || next.Input.(*step).op == nil {
		p.why = "porcupine finds no order"
		return
	}
	in := next.Input.(*step)
	_, wrong := s.step(in)
	p.at = time.Duration(next.Call)
	p.why = fmt.Sprintf("%d of %d steps have an order, and behind them does not fit %s: %s", len(longest), len(all),
		in.op, cmp.Or(wrong, "what comes behind it has none"))
}
