package main

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest/launch"
)

// server is the Redis that is measured on.
type server struct {
	url     string
	client  *redis.Client
	version string
	process *launch.Server // nil unless it is our own
}

// openServer returns the Redis of that URL, or starts one if it is empty.
func openServer(ctx context.Context, url string) (*server, error) {
	s := &server{url: url}
	var err error
	if url == "" {
		if s.process, err = launch.Start(ctx, launch.Plain()); err != nil {
			return nil, fmt.Errorf("without --redis a server is started: %w", err)
		}
		s.url = s.process.URL()
	}
	if s.client, err = (target{s.url, 1}).client(); err == nil {
		s.version, err = s.field(ctx, "Server", "redis_version")
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// clear empties the server if it is our own.
func (s *server) clear(ctx context.Context) error {
	if s.process == nil {
		return nil
	}
	return s.client.FlushAll(ctx).Err()
}

func (s *server) close() {
	if s.client != nil {
		_ = s.client.Close()
	}
	if s.process != nil {
		_ = s.process.Close()
	}
}
