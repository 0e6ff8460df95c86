package chaos

import (
	"bufio"
	"encoding/json"
	"io"
	"sync"
	"time"

	"roomd/loadtest/check"
)

// recorder is the history of a run, while it happens. Its methods are safe for concurrent use.
type recorder struct {
	start time.Time

	mu      sync.Mutex
	history check.History // guarded by mu
	conns   []*check.Conn // guarded by mu; of history
	lines   *bufio.Writer // guarded by mu; nil: nobody wants them
	encoder *json.Encoder // guarded by mu; of lines
	failed  error         // guarded by mu: writing did
	values  int           // guarded by mu: how many were drawn
	done    int64         // guarded by mu: acknowledged actions, without reads
	unknown int64         // guarded by mu
	refused int64         // guarded by mu
	marks   []mark        // guarded by mu: one for each acknowledged action
}

// mark is an acknowledged action, for the figures.
type mark struct {
	at, took time.Duration
	node     int
	room     string
}

// line is a line of the history's file: one of its fields is set.
type line struct {
	At     time.Duration `json:"at"` // ns
	Call   *check.Op     `json:"call,omitzero"`
	Return *check.Op     `json:"return,omitzero"`
	Event  *check.Event  `json:"event,omitzero"`
	Fault  *check.Fault  `json:"fault,omitzero"`
	Told   *check.Told   `json:"told,omitzero"`
	Reader string        `json:"reader,omitzero"` // of the feed, who was told
}

func newRecorder(w io.Writer) *recorder {
	r := &recorder{start: time.Now()}
	if w != nil {
		r.lines = bufio.NewWriter(w)
		r.encoder = json.NewEncoder(r.lines)
		r.encoder.SetEscapeHTML(false)
	}
	return r
}

// now returns the time since the run began.
func (r *recorder) now() time.Duration { return time.Since(r.start) }

// writeLocked adds a line to the file.
func (r *recorder) writeLocked(l line) {
	if r.lines != nil && r.failed == nil {
		r.failed = r.encoder.Encode(l)
	}
}

// flush writes what is left, and returns the first error of writing.
func (r *recorder) flush() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lines != nil && r.failed == nil {
		r.failed = r.lines.Flush()
	}
	return r.failed
}

// call records that an operation begins.
func (r *recorder) call(op *check.Op) {
	r.mu.Lock()
	defer r.mu.Unlock()
	op.ID, op.Call = len(r.history.Ops)+1, r.now()
	r.history.Ops = append(r.history.Ops, op)
	r.writeLocked(line{At: op.Call, Call: op})
}

// returned records how it ended.
func (r *recorder) returned(op *check.Op, took bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	op.Return = r.now()
	switch {
	case op.Outcome == check.Unknown:
		op.Return = 0
		r.unknown++
	case op.Outcome == check.Refused:
		r.refused++
	case op.Action != check.Read && took:
		r.done++
		r.marks = append(r.marks, mark{op.Return, op.Return - op.Call, op.Node, op.Room})
	}
	r.writeLocked(line{At: r.now(), Return: op})
}

// heard records an event, and that its connection lives.
func (r *recorder) heard(e check.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.At = r.now()
	r.conns[e.Conn].Last = e.At
	if e.Room == "" {
		return
	}
	r.history.Events = append(r.history.Events, e)
	if !e.Reply {
		r.writeLocked(line{At: e.At, Event: &e})
	}
}

// told writes what a reader of the feed was told.
func (r *recorder) told(reader string, t *check.Told) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writeLocked(line{At: t.At, Told: t, Reader: reader})
}

// connected records a new connection, and returns its number.
func (r *recorder) connected(user string, node int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.now()
	r.conns = append(r.conns, &check.Conn{User: user, Node: node, From: at, Last: at, Open: true})
	return len(r.conns) - 1
}

// cut records that a connection has ended.
func (r *recorder) cut(conn int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conns[conn].Open = false
}

// fault records a fault that begins, and returns its index.
func (r *recorder) fault(f check.Fault) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history.Faults = append(r.history.Faults, f)
	r.writeLocked(line{At: r.now(), Fault: &f})
	return len(r.history.Faults) - 1
}

// update changes what is known of a fault.
func (r *recorder) update(i int, change func(*check.Fault)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := &r.history.Faults[i]
	change(f)
	r.writeLocked(line{At: r.now(), Fault: f})
}

// value returns a number that no other call has got.
func (r *recorder) value() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.values++
	return r.values
}

// counts returns how many operations ended so.
func (r *recorder) counts() (done, refused, unknown int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.done, r.refused, r.unknown
}

// since returns which rooms and nodes have acknowledged an action that was called after a time.
func (r *recorder) since(from time.Duration) (rooms map[string]bool, nodes map[int]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rooms, nodes = make(map[string]bool), make(map[int]bool)
	for i := len(r.marks) - 1; i >= 0 && r.marks[i].at > from; i-- {
		if m := r.marks[i]; m.at-m.took > from {
			rooms[m.room], nodes[m.node] = true, true
		}
	}
	return rooms, nodes
}

// end returns the history when nothing more is recorded.
func (r *recorder) end() *check.History {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history.End = r.now()
	for _, c := range r.conns {
		r.history.Conns = append(r.history.Conns, *c)
	}
	return &r.history
}
