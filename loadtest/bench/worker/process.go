// Package worker runs what a measurement must not have in its own process: the server whose memory
// or latency it measures, the clients, and those who attack it.
//
// A child is this program again. So its main function, and TestMain, call [Main] first. The parent
// calls a child by net/rpc over its standard input and output, and a child ends when its standard
// input does: it cannot outlive its parent.
//
//   - [Server] is a node with roomd's defaults, or a bare gorilla/websocket echo server.
//   - [Swarm] is many ordinary clients.
//   - [Attack] is clients that behave badly.
package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/rpc"
	"os"
	"os/exec"
	"sync"
	"time"
)

const (
	// childEnv tells a process that it is a child.
	childEnv = "ROOMLOAD_CHILD"

	helloTimeout = 30 * time.Second
	exitTimeout  = 20 * time.Second
)

// process is a child. It is safe for concurrent use.
type process struct {
	cmd  *exec.Cmd
	rpc  *rpc.Client
	once sync.Once
}

// launch starts a child. It fails if the program does not call Main.
func launch(ctx context.Context) (*process, error) {
	if os.Getenv(childEnv) != "" {
		return nil, errors.New("worker: a child starts no children; does the program call worker.Main?")
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), childEnv+"=1")
	cmd.Stderr = os.Stderr
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
	p := &process{cmd: cmd, rpc: rpc.NewClient(pipe{out, in})}
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	if err := p.call(ctx, "Child.Hello", 0, new(int)); err != nil {
		p.close()
		return nil, fmt.Errorf("start a process: %w", err)
	}
	return p, nil
}

// call calls a method of the child. If ctx ends it returns at once, and the child goes on.
func (p *process) call(ctx context.Context, method string, args, reply any) error {
	call := p.rpc.Go(method, args, reply, make(chan *rpc.Call, 1))
	select {
	case <-call.Done:
		if errors.Is(call.Error, rpc.ErrShutdown) || errors.Is(call.Error, io.ErrUnexpectedEOF) {
			return fmt.Errorf("%s: the process has ended", method)
		}
		return call.Error
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// close ends the child and returns when it is gone.
func (p *process) close() {
	p.once.Do(func() {
		_ = p.rpc.Close()
		late := time.AfterFunc(exitTimeout, func() { _ = p.cmd.Process.Kill() })
		defer late.Stop()
		_ = p.cmd.Wait()
	})
}

// pipe is both directions of a connection.
type pipe struct {
	io.Reader
	out io.Closer
}

// Write writes to the other process.
func (p pipe) Write(data []byte) (int, error) { return p.out.(io.Writer).Write(data) }

// Close closes the direction to the other process.
func (p pipe) Close() error { return p.out.Close() }
