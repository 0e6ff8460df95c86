package launch

import (
	"bytes"
	"slices"
	"strings"
	"sync"
)

const keepLines = 20

// output reads what a server logs: it keeps the last lines, and notices the one by which
// the server is ready.
type output struct {
	ready chan struct{} // closed when a line contains sign
	sign  string

	mu    sync.Mutex
	told  bool     // guarded by mu: ready is closed
	rest  []byte   // guarded by mu: a line without its end
	lines []string // guarded by mu
}

func newOutput(sign string) *output { return &output{ready: make(chan struct{}), sign: sign} }

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.rest = append(o.rest, p...)
	for {
		line, rest, ended := bytes.Cut(o.rest, []byte("\n"))
		if !ended {
			return len(p), nil
		}
		o.lineLocked(string(line))
		o.rest = slices.Clone(rest)
	}
}

func (o *output) lineLocked(line string) {
	if o.lines = append(o.lines, line); len(o.lines) > keepLines {
		o.lines = slices.Delete(o.lines, 0, 1)
	}
	if !o.told && strings.Contains(line, o.sign) {
		o.told = true
		close(o.ready)
	}
}

// String returns the last lines.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(append(slices.Clone(o.lines), string(o.rest)), "\n")
}
