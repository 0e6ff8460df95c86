package redisserver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	startAttempts = 5 // somebody else may take the port between our look and redis-server's
	startTimeout  = 10 * time.Second
	stopTimeout   = 5 * time.Second
	readyLine     = "Ready to accept connections"
)

// process is a redis-server that we have started.
type process struct {
	url  string
	dir  string
	cmd  *exec.Cmd
	gone chan struct{} // closed when it has ended and has been waited for
}

func launch(ctx context.Context, binary string) (p *process, err error) {
	for range startAttempts {
		p, err = tryLaunch(ctx, binary)
		if err == nil || ctx.Err() != nil || !errors.Is(err, errNotReady) {
			break
		}
	}
	return p, err
}

func tryLaunch(ctx context.Context, binary string) (*process, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "roomload-redis-")
	if err != nil {
		return nil, err
	}
	p := &process{
		url: fmt.Sprintf("redis://127.0.0.1:%d", port),
		dir: dir,
		cmd: exec.Command(binary, "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", dir,
			"--save", "", "--appendonly", "no", "--daemonize", "no", "--logfile", ""),
		gone: make(chan struct{}),
	}
	said, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := p.awaitReady(ctx, said); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

// awaitReady returns when that very process has said that it accepts
// connections; another one may answer at its port. From here on somebody reads
// what it says, and waits for its end.
func (p *process) awaitReady(ctx context.Context, said io.Reader) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	ready := make(chan struct{})
	go func() { // ends with the process
		defer close(p.gone)
		lines := bufio.NewScanner(said)
		for told := false; lines.Scan(); {
			if !told && strings.Contains(lines.Text(), readyLine) {
				told = true
				close(ready)
			}
		}
		_, _ = io.Copy(io.Discard, said) // what the scanner would not take
		_ = p.cmd.Wait()
	}()
	select {
	case <-ready:
		return nil
	case <-p.gone:
		return errNotReady
	case <-ctx.Done():
		return fmt.Errorf("redis-server is not ready: %w", context.Cause(ctx))
	}
}

// stop ends the process, takes its folder away and returns when both are gone.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.gone:
	case <-time.After(stopTimeout):
		_ = p.cmd.Process.Kill()
		<-p.gone
	}
	_ = os.RemoveAll(p.dir)
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
