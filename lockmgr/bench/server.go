package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	startAttempts = 5 // somebody else may take the port between our look and redis-server's
	startTimeout  = 5 * time.Second
	stopTimeout   = 5 * time.Second
	startPoll     = 10 * time.Millisecond
)

// server is the Redis that is measured on.
type server struct {
	url     string
	client  *redis.Client
	version string
	stop    func() // nil unless the server is our own
}

// openServer returns the Redis of that URL, or starts one if it is empty.
func openServer(ctx context.Context, url string) (*server, error) {
	s := &server{url: url}
	if url == "" {
		if err := s.launch(ctx); err != nil {
			return nil, err
		}
	}
	var err error
	if s.client, err = (target{s.url, 1}).client(); err == nil {
		s.version, err = s.field(ctx, "Server", "redis_version")
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *server) launch(ctx context.Context) error {
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		return fmt.Errorf("without --redis a redis-server is needed: %w", err)
	}
	for range startAttempts {
		if err = s.tryLaunch(ctx, binary); err == nil || ctx.Err() != nil {
			break
		}
	}
	return err
}

func (s *server) tryLaunch(ctx context.Context, binary string) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "lockbench")
	if err != nil {
		return err
	}
	cmd := exec.Command(binary, "--port", strconv.Itoa(port), "--bind", "127.0.0.1",
		"--dir", dir, "--save", "", "--appendonly", "no", "--daemonize", "no")
	if err := cmd.Start(); err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	s.url = fmt.Sprintf("redis://127.0.0.1:%d", port)
	s.stop = func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(stopTimeout):
			_ = cmd.Process.Kill()
			<-ended
		}
		_ = os.RemoveAll(dir)
	}
	if err := s.awaitReady(ctx, cmd.Process.Pid, ended); err != nil {
		s.stop()
		s.stop = nil
		return err
	}
	return nil
}

// awaitReady returns when that very process answers, and not another one that has
// got its port.
func (s *server) awaitReady(ctx context.Context, pid int, ended <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	client, err := (target{s.url, 1}).client()
	if err != nil {
		return err
	}
	defer client.Close()
	for {
		select {
		case <-ended:
			return errors.New("redis-server ended at once")
		case <-ctx.Done():
			return fmt.Errorf("redis-server does not answer: %w", context.Cause(ctx))
		case <-time.After(startPoll):
		}
		info, err := client.InfoMap(ctx, "server").Result()
		if err == nil && info["Server"]["process_id"] == strconv.Itoa(pid) {
			return nil
		}
	}
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// clear empties the server if it is our own.
func (s *server) clear(ctx context.Context) error {
	if s.stop == nil {
		return nil
	}
	return s.client.FlushAll(ctx).Err()
}

func (s *server) close() {
	if s.client != nil {
		_ = s.client.Close()
	}
	if s.stop != nil {
		s.stop()
	}
}
