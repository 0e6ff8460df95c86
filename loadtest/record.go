package loadtest

import (
	"bufio"
	"cmp"
	"encoding/json"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"roomd/loadtest/check"
)

// Recorder collects the history of a run. Its methods are safe for concurrent use.
type Recorder struct {
	start  time.Time
	ids    atomic.Int64 // last operation id
	values atomic.Int64 // last value
	counts struct{ done, refused, unknown atomic.Int64 }

	mu     sync.Mutex
	logs   []*log        // guarded by mu
	faults []check.Fault // guarded by mu
	conns  []*check.Conn // guarded by mu

	writing sync.Mutex
	lines   *bufio.Writer // guarded by writing; nil without a file
	encoder *json.Encoder // guarded by writing; writes to lines
	failed  error         // guarded by writing: the first error of lines
}

// log is one client's part of the history. So clients do not wait for one another.
type log struct {
	*Recorder
	mu     sync.Mutex
	ops    []*check.Op   // guarded by mu
	events []check.Event // guarded by mu
}

// line is a line of the history's file, with one of its fields set.
type line struct {
	At     time.Duration `json:"at"` // ns
	Call   *check.Op     `json:"call,omitzero"`
	Return *check.Op     `json:"return,omitzero"`
	Event  *check.Event  `json:"event,omitzero"`
	Fault  *check.Fault  `json:"fault,omitzero"`
	Told   *check.Told   `json:"told,omitzero"`
	Reader string        `json:"reader,omitzero"` // reader of the feed, for Told
}

func newRecorder(w io.Writer) *Recorder {
	r := &Recorder{start: time.Now()}
	if w != nil {
		r.lines = bufio.NewWriter(w)
		r.encoder = json.NewEncoder(r.lines)
		r.encoder.SetEscapeHTML(false)
	}
	return r
}

func (r *Recorder) newLog() *log {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := &log{Recorder: r}
	r.logs = append(r.logs, l)
	return l
}

// Now returns the time since the run began.
func (r *Recorder) Now() time.Duration { return time.Since(r.start) }

// write adds a line to the file.
func (r *Recorder) write(l line) {
	if r.lines == nil {
		return
	}
	r.writing.Lock()
	defer r.writing.Unlock()
	if l.At = r.Now(); r.failed == nil {
		r.failed = r.encoder.Encode(l)
	}
}

// flush writes what is left, and returns the first error of writing.
func (r *Recorder) flush() error {
	r.writing.Lock()
	defer r.writing.Unlock()
	if r.lines != nil && r.failed == nil {
		r.failed = r.lines.Flush()
	}
	return r.failed
}

// call records the start of an operation.
func (l *log) call(op *check.Op) {
	op.ID, op.Call = int(l.ids.Add(1)), l.Now()
	l.mu.Lock()
	l.ops = append(l.ops, op)
	l.mu.Unlock()
	l.write(line{Call: op})
}

// returned replaces an operation by a copy with its result.
func (l *log) returned(op *check.Op, end check.Op) {
	l.mu.Lock()
	*op = end
	op.Return = l.Now()
	switch {
	case op.Outcome == check.Unknown:
		op.Return = 0
		l.counts.unknown.Add(1)
	case op.Outcome == check.Refused:
		l.counts.refused.Add(1)
	case op.Acts():
		l.counts.done.Add(1)
	}
	l.mu.Unlock()
	l.write(line{Return: op})
}

// heard records a sign of life of a connection, and the frame, if it is about a room.
func (l *log) heard(conn int, c *check.Conn, f *check.Frame) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.Last = l.Now(); f == nil {
		return
	}
	e := check.Event{Conn: conn, User: c.User, At: c.Last, Frame: f}
	l.events = append(l.events, e)
	if !f.Reply {
		l.write(line{Event: &e})
	}
}

// Told writes an entry that a reader of the feed got.
func (r *Recorder) Told(reader string, t *check.Told) { r.write(line{Told: t, Reader: reader}) }

// connected records a new connection, and returns its number.
func (r *Recorder) connected(user string, node int, watches bool) (int, *check.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.Now()
	r.conns = append(r.conns, &check.Conn{User: user, Node: node, From: at, Last: at, Open: true, Watches: watches})
	return len(r.conns) - 1, r.conns[len(r.conns)-1]
}

// Fault records the start of a fault, and returns its index.
func (r *Recorder) Fault(f check.Fault) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = append(r.faults, f)
	r.write(line{Fault: &f})
	return len(r.faults) - 1
}

// Update changes the record of a fault.
func (r *Recorder) Update(i int, change func(*check.Fault)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.faults[i])
	f := r.faults[i]
	r.write(line{Fault: &f})
}

// Faults returns the faults so far.
func (r *Recorder) Faults() []check.Fault {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.faults)
}

// Value returns a unique number.
func (r *Recorder) Value() int64 { return r.values.Add(1) }

// Counts returns how many operations were acknowledged (without reads), refused, or have an unknown outcome.
func (r *Recorder) Counts() (done, refused, unknown int64) {
	return r.counts.done.Load(), r.counts.refused.Load(), r.counts.unknown.Load()
}

// Since returns the rooms and nodes that have acknowledged an action called after from.
func (r *Recorder) Since(from time.Duration) (rooms map[string]bool, nodes map[int]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rooms, nodes = make(map[string]bool), make(map[int]bool)
	for _, l := range r.logs {
		l.mu.Lock()
		for _, op := range slices.Backward(l.ops) {
			if op.Call <= from {
				break
			}
			if op.Outcome == check.Done && op.Acts() {
				rooms[op.Room], nodes[op.Node] = true, true
			}
		}
		l.mu.Unlock()
	}
	return rooms, nodes
}

// End returns the history, and empties the recorder. Nothing may be recorded afterwards.
func (r *Recorder) End() *check.History {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := &check.History{End: r.Now(), Faults: r.faults}
	for _, c := range r.conns {
		h.Conns = append(h.Conns, *c)
	}
	ops, events := 0, 0
	for _, l := range r.logs {
		ops, events = ops+len(l.ops), events+len(l.events)
	}
	h.Ops, h.Events = make([]*check.Op, 0, ops), make([]check.Event, 0, events)
	for _, l := range r.logs {
		h.Ops, h.Events = append(h.Ops, l.ops...), append(h.Events, l.events...)
		l.ops, l.events = nil, nil
	}
	slices.SortFunc(h.Ops, func(a, b *check.Op) int {
		return cmp.Or(cmp.Compare(a.Call, b.Call), cmp.Compare(a.ID, b.ID))
	})
	return h
}
