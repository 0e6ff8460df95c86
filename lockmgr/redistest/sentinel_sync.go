package redistest

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// admins are clients of servers, to ask about their replication.
type admins map[*Server]*redis.Client

// inSync returns nil if replica follows primary and has all that primary had when it was
// asked.
func (a admins) inSync(ctx context.Context, replica, primary *Server) error {
	there, err := a.replication(ctx, primary)
	if err != nil {
		return err
	}
	here, err := a.replication(ctx, replica)
	if err != nil {
		return err
	}
	want, _ := strconv.Atoi(there["master_repl_offset"])
	has, _ := strconv.Atoi(here["slave_repl_offset"])
	if here["master_port"] != strconv.Itoa(primary.port()) || here["master_link_status"] != "up" || has < want {
		return fmt.Errorf("%s follows %s, link %s, at %d of %d",
			replica.Addr(), here["master_port"], here["master_link_status"], has, want)
	}
	return nil
}

// replication returns the section of INFO with that name.
func (a admins) replication(ctx context.Context, server *Server) (map[string]string, error) {
	info, err := a[server].Info(ctx, "replication").Result()
	if err != nil {
		return nil, err
	}
	fields := make(map[string]string)
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		fields[name] = value
	}
	return fields, nil
}
