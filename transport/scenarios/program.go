package scenarios

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"time"
)

const (
	longestLine = 1 << 20
	mostLines   = 10_000 // that the program has not read
	// goodbye is how long the program has to end after the end of its input.
	goodbye = 10 * time.Second
)

var errEnded = errors.New("the program has ended")

// program is a program under test. Each scenario has a client of its own in it.
type program struct {
	in   chan []byte     // its input: lines
	life context.Context // ends behind its last line
	wait func() error    // waits for the process

	mu      sync.Mutex
	last    int                 // guarded by mu: id of the latest request
	clients int                 // guarded by mu
	waiting map[int]chan string // guarded by mu: for answers; nil when the program has ended
	wrong   error               // guarded by mu: the first line that is no answer
}

// start starts the program. The caller must close it.
func start(cmd *exec.Cmd) (*program, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := newProgram(in, out)
	p.wait = func() error {
		late := time.AfterFunc(goodbye, func() { _ = cmd.Process.Kill() })
		<-p.life.Done()
		if err := cmd.Wait(); !late.Stop() {
			return fmt.Errorf("the program goes on %v after the end of its input", goodbye)
		} else if err != nil {
			return fmt.Errorf("the program ended with: %w", err)
		}
		return nil
	}
	return p, nil
}

func newProgram(in io.WriteCloser, out io.Reader) *program {
	life, end := context.WithCancelCause(context.Background())
	p := &program{in: make(chan []byte, mostLines), life: life, waiting: map[int]chan string{}}
	go func() {
		defer in.Close()
		for line := range p.in {
			_, _ = in.Write(line) // read notices that the program has ended
		}
	}()
	go func() {
		defer end(errEnded)
		p.read(out)
	}()
	return p
}

// close ends the program, killed if need be, and waits for it. The error says what was wrong with its lines or its end.
func (p *program) close() error {
	close(p.in)
	err := p.wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	return errors.Join(p.wrong, err)
}

// read hands out the answers, until there are no more.
func (p *program) read(out io.Reader) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, longestLine)
	for lines.Scan() {
		id, text, err := readAnswer(lines.Bytes())
		p.mu.Lock()
		answer := p.waiting[id]
		if err == nil && answer == nil {
			err = fmt.Errorf("the program answered %q, which nobody has asked", lines.Bytes())
		}
		if err == nil {
			answer <- text
			delete(p.waiting, id)
		} else if p.wrong == nil {
			p.wrong = err
		}
		p.mu.Unlock()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, answer := range p.waiting {
		answer <- "error " + errEnded.Error()
	}
	p.waiting = nil
}

// newClient returns the name of a client that the program does not have yet.
func (p *program) newClient() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clients++
	return fmt.Sprintf("client-%d", p.clients)
}

// do lets a client of the program carry out a command, and returns the answer. Several run at once. It returns at the
// end of ctx, with any answer.
func (p *program) do(ctx context.Context, client, do string, args ...string) string {
	answer, err := p.send(client, do, args)
	if err != nil {
		return "error " + err.Error()
	}
	got, err := receive(ctx, answer)
	if err != nil {
		return "error the program does not answer to " + do
	}
	return got
}

func (p *program) send(client, do string, args []string) (<-chan string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting == nil {
		return nil, errEnded
	}
	p.last++
	line, err := request(p.last, client, do, args...)
	if err != nil {
		return nil, err
	}
	answer := make(chan string, 1)
	select {
	case p.in <- line:
		p.waiting[p.last] = answer
		return answer, nil
	default:
		return nil, errors.New("the program does not read")
	}
}
