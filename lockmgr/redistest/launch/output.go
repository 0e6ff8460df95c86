package launch

import (
	"bytes"
	"slices"
	"strings"
	"sync"
)

const keepLines = 20

// output receives the log of a server. It keeps the last lines, and finds the line that says that the server is
// ready.
type output struct {
	ready chan struct{} // closed when a line contains sign
	sign  string

	mu    sync.Mutex
	found bool     // guarded by mu: ready is closed
	part  []byte   // guarded by mu: the incomplete last line
	lines []string // guarded by mu
}

func newOutput(sign string) *output { return &output{ready: make(chan struct{}), sign: sign} }

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.part = append(o.part, p...)
	for {
		line, rest, ended := bytes.Cut(o.part, []byte("\n"))
		if !ended {
			return len(p), nil
		}
		o.lineLocked(string(line))
		o.part = slices.Clone(rest)
	}
}

func (o *output) lineLocked(line string) {
	if o.lines = append(o.lines, line); len(o.lines) > keepLines {
		o.lines = slices.Delete(o.lines, 0, 1)
	}
	if !o.found && strings.Contains(line, o.sign) {
		o.found = true
		close(o.ready)
	}
}

// String returns the last lines.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(append(slices.Clone(o.lines), string(o.part)), "\n")
}
