package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync/atomic"
	"time"
)

// processFlag makes this program one process of a measurement. On stdin it takes
// its cell, and a word when it is to begin; on stdout it gives a word when it is
// ready, and its tally; all as JSON.
const processFlag = "--process"

// slack is what starting and ending the processes may take besides.
const slack = 10 * time.Second

func isProcess(args []string) bool { return slices.Equal(args[1:], []string{processFlag}) }

// serve does the work of one process.
func serve(stdin io.Reader, stdout io.Writer) error {
	in, out := json.NewDecoder(stdin), json.NewEncoder(stdout)
	var c cell
	if err := in.Decode(&c); err != nil {
		return err
	}
	var f faults
	l, err := c.open(&f)
	if err != nil {
		return err
	}
	workers := &crew{locks: l, names: c.names("measure"), owners: make([]atomic.Int64, c.Keys), faults: &f}
	if c.Verify {
		workers.names = c.names("verify")
		if workers.marks, err = c.target().client(); err != nil {
			return err
		}
		defer workers.marks.Close()
	}
	if c.WarmUp > 0 {
		warm := *workers
		warm.names = c.names("warm-up")
		warm.work(c.Goroutines, c.WarmUp)
	}
	var word string
	if err := errors.Join(out.Encode("ready"), in.Decode(&word)); err != nil {
		return err
	}
	t := workers.work(c.Goroutines, c.Duration)
	t.Faults, t.FirstFault = f.read()
	if t.Hung == 0 {
		defer l.Close() // at once if all is well; the tally does not wait for it
	}
	return out.Encode(t)
}

// process is another process of this program.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer
	in    *json.Encoder
	out   *json.Decoder
}

// start runs a process, which is killed when ctx ends.
func (c cell) start(ctx context.Context) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, processFlag)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &process{cmd, stdin, json.NewEncoder(stdin), json.NewDecoder(stdout)}, nil
}

// end waits until the process has ended.
func (p *process) end() error {
	_ = p.stdin.Close()
	return p.cmd.Wait()
}

// measure lets n processes begin at the same time, and returns what all of them
// have counted and what it has cost the server. The tally is good even if there is
// an error after it.
func (c cell) measure(ctx context.Context, n int, s *server) (sum tally, used usage, err error) {
	sum = newTally()
	ctx, cancel := context.WithTimeout(ctx, c.WarmUp+c.Duration+2*grace+slack)
	defer cancel()
	var all []*process
	defer func() {
		if err != nil {
			cancel()
		}
		for _, p := range all {
			if ended := p.end(); ended != nil && err == nil {
				err = fmt.Errorf("process did not end: %w", ended)
			}
		}
	}()
	for range n {
		p, err := c.start(ctx)
		if err != nil {
			return sum, used, err
		}
		all = append(all, p)
		if err := p.in.Encode(c); err != nil {
			return sum, used, err
		}
	}
	for _, p := range all {
		var word string
		if err := p.out.Decode(&word); err != nil {
			return sum, used, fmt.Errorf("process did not become ready: %w", err)
		}
	}
	before, err := s.usage(ctx)
	if err != nil {
		return sum, used, err
	}
	for _, p := range all {
		if err := p.in.Encode("go"); err != nil {
			return sum, used, err
		}
	}
	for _, p := range all {
		t := newTally()
		if err := p.out.Decode(&t); err != nil {
			return sum, used, fmt.Errorf("process did not report: %w", err)
		}
		sum.add(t)
	}
	after, err := s.usage(ctx)
	return sum, after.since(before), err
}
