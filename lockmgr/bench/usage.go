package main

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// usage is what a server has done since its start, or between two moments.
type usage struct {
	Commands float64       // those that scripts called are among them
	Reads    float64       // from clients' sockets
	CPU      time.Duration // of the whole process, user and system
}

func (u usage) since(earlier usage) usage {
	return usage{u.Commands - earlier.Commands, u.Reads - earlier.Reads, u.CPU - earlier.CPU}
}

// usage asks the server. Its question counts too.
func (s *server) usage(ctx context.Context) (u usage, err error) {
	var user, system float64
	for _, n := range []struct {
		section, name string
		to            *float64
	}{
		{"Stats", "total_commands_processed", &u.Commands},
		{"Stats", "total_reads_processed", &u.Reads},
		{"CPU", "used_cpu_user", &user},
		{"CPU", "used_cpu_sys", &system},
	} {
		text, err := s.field(ctx, n.section, n.name)
		if err != nil {
			return u, err
		}
		if *n.to, err = strconv.ParseFloat(text, 64); err != nil {
			return u, fmt.Errorf("redis: INFO %s: %w", n.name, err)
		}
	}
	u.CPU = time.Duration((user + system) * float64(time.Second))
	return u, nil
}

// field returns one field of what the server says about itself.
func (s *server) field(ctx context.Context, section, name string) (string, error) {
	info, err := s.client.InfoMap(ctx, section).Result()
	if err != nil {
		return "", fmt.Errorf("redis: INFO: %w", err)
	}
	text, ok := info[section][name]
	if !ok {
		return "", fmt.Errorf("redis: INFO has no %s", name)
	}
	return text, nil
}
