package page_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"roomd/lockmgr/redistest"
	"roomd/transport/internal/scenarios"
)

// roomd.js does what every client has to do.
func TestClient_Scenarios(t *testing.T) {
	t.Parallel()
	p := startSubjects(t)
	scenarios.Run(t, func(t *testing.T, addresses []string) scenarios.Subject {
		s := &subject{p, t.Name()}
		if got := s.Do(t.Context(), "new", addresses...); got != "ok" {
			t.Fatal(got)
		}
		return s
	})
}

// subject is a client of roomd.js in a process of Node.
type subject struct {
	process *subjects
	name    string
}

// subjects are the clients for which testdata/subject.js speaks.
type subjects struct {
	mu      sync.Mutex
	in      io.Writer           // guarded by mu
	last    int                 // guarded by mu: number of the latest command
	waiting map[int]chan string // guarded by mu: for answers; nil when the process has ended
}

func startSubjects(t *testing.T) *subjects {
	t.Helper()
	cmd := nodeCommand(t, "testdata/subject.js")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	redistest.OK(t, err)
	out, err := cmd.StdoutPipe()
	redistest.OK(t, err)
	redistest.OK(t, cmd.Start())
	s := &subjects{in: in, waiting: map[int]chan string{}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.read(out)
	}()
	t.Cleanup(func() {
		_ = in.Close()
		<-done
		// A client that has been closed keeps no timer, so that the process ends by itself.
		if err := cmd.Wait(); err != nil {
			t.Errorf("node: %v", err)
		}
	})
	return s
}

// read hands out the answers, until there are no more.
func (s *subjects) read(out io.Reader) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var answer struct {
			Number int
			Text   string
		}
		if err := json.Unmarshal(lines.Bytes(), &answer, json.MatchCaseInsensitiveNames(true)); err != nil {
			fmt.Fprintf(os.Stderr, "subject.js says %s: %v\n", lines.Bytes(), err)
			continue
		}
		s.mu.Lock()
		waits := s.waiting[answer.Number]
		delete(s.waiting, answer.Number)
		s.mu.Unlock()
		if waits != nil {
			waits <- answer.Text
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, waits := range s.waiting {
		waits <- "error the process has ended"
	}
	s.waiting = nil
}

func (s *subject) Do(ctx context.Context, command string, args ...string) string {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	answer, err := s.process.send(append([]string{s.name, command}, args...)...)
	if err != nil {
		return "error " + err.Error()
	}
	select {
	case got := <-answer:
		return got
	case <-ctx.Done():
		return "error no answer to " + command
	}
}

func (s *subjects) send(words ...string) (<-chan string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting == nil {
		return nil, io.ErrClosedPipe
	}
	s.last++
	line := []any{s.last}
	for _, word := range words {
		line = append(line, word)
	}
	text, err := json.Marshal(line)
	if err != nil {
		return nil, err
	}
	answer := make(chan string, 1)
	s.waiting[s.last] = answer
	_, err = s.in.Write(append(bytes.TrimSpace(text), '\n'))
	return answer, err
}
