package coordinator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"roomd/lockmgr/redistest"
	"roomd/room"
)

// asUser returns a client of a user with that ACL.
func asUser(t *testing.T, server *redistest.Server, rules string) *redis.Client {
	t.Helper()
	admin := server.Client()
	args := []any{"ACL", "SETUSER", "roomd", "reset", "on", ">secret"}
	for _, rule := range strings.Fields(rules) {
		args = append(args, rule)
	}
	redistest.OK(t, admin.Do(t.Context(), args...).Err())
	opts := *admin.Options()
	opts.Username, opts.Password = "roomd", "secret"
	client := redis.NewClient(&opts)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// Check finds what Redis does not allow, and the ACL that its error recommends is enough.
func TestCheck_Permissions(t *testing.T) {
	server, rights := redistest.Start(t), EnoughRights("")
	for _, test := range []struct {
		rules string
		want  []string
	}{
		{rights, nil},
		{strings.Replace(rights, "&Room:*", "", 1), []string{"PUBLISH Room:*:Events", "SUBSCRIBE Room:*:Events"}},
		{strings.Replace(rights, "&LockRoom:*", "", 1), []string{"PUBLISH LockRoom:*:Wake:*", "SUBSCRIBE LockRoom:*:Wake:*"}},
		{strings.Replace(rights, "~Node*", "", 1), []string{"SET Node:*", "SADD Node:*:Rooms", "ZADD Nodes"}},
		{strings.Replace(rights, "~LockRoom:*", "", 1), []string{"SET LockRoom:*", "ZPOPMIN LockRoom:*:Queue", "SET LockRoom:*:Fence"}},
		{strings.Replace(rights, "~Lobby:*", "", 1), []string{"HSET Lobby:*"}},
		{strings.Replace(rights, "~Timers:*", "", 1), []string{"ZADD Timers:due"}},
		{rights + " -scan", []string{"SCAN"}},
		{rights + " -time", []string{"TIME"}},
		{rights + " -info", []string{"INFO"}},
		{rights + " -wait", []string{"WAIT"}},
		{rights + " -ping", []string{"PING"}},
		{rights + " -script|load", []string{"SCRIPT LOAD"}},
		{rights + " -hsetnx", []string{"HSETNX Feed:Readers"}},
		{rights + " -@transaction", []string{"MULTI"}},
		{rights + " -@scripting", []string{"EVAL", "EVALSHA"}},
		{rights + " -hset", []string{"HSET Room:*:Meta", "HSET Room:*:Users"}},
	} {
		opts := Options{}
		if strings.HasSuffix(test.rules, "-wait") {
			opts.Replicas = 1
		}
		if strings.HasSuffix(test.rules, "-hsetnx") {
			opts = withFeed
		}
		c := newCoordinator(t, asUser(t, server, test.rules), opts)
		err := c.Check(soon(t))
		if (err != nil) != (test.want != nil) {
			t.Errorf("%s: %v", test.rules, err)
			continue
		}
		for _, missing := range test.want {
			redistest.ErrorIf(t, !strings.Contains(err.Error(), missing) || !strings.Contains(err.Error(), rights),
				"%s: it does not say %q: %v", test.rules, missing, err)
		}
		if test.want == nil {
			f, _ := follow(t, c, "42")
			mustDo(t, c, "42", room.Join{User: "a", Session: "s"})
			f.expect(t, "1<0 +a@0")
			mustDo(t, newCoordinator(t, server.Client(), Options{}), "42", room.Leave{User: "a", Session: "s"})
			f.expect(t, "2<1 -a@0")
			redistest.OK(t, c.Close(soon(t)))
		}
	}
	for _, key := range server.Client().Keys(t.Context(), "*"+"~check"+"*").Val() {
		t.Errorf("%s is left", key)
	}
}

func TestCheck_NoRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c := newCoordinator(t, server.Client(), Options{})
	server.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	redistest.ErrorIs(t, "stopped", c.Check(ctx), room.ErrUnavailable)
	server.Resume()
	server.Kill()
	redistest.ErrorIs(t, "killed", c.Check(soon(t)), room.ErrUnavailable)
}

// Check warns of a Redis that may evict rooms and leases.
func TestCheck_Eviction(t *testing.T) {
	for policy, warnings := range map[string]int{"noeviction": 0, "allkeys-lru": 1, "volatile-ttl": 1} {
		var log lines
		c := newCoordinator(t, redistest.Start(t, "--maxmemory-policy", policy).Client(), Options{Log: slog.New(zerolog.NewSlogHandler(zerolog.New(&log)))})
		redistest.OK(t, c.Check(soon(t)))
		n := log.count("noeviction")
		redistest.ErrorIf(t, n != warnings || warnings > 0 && log.count(policy) != 1, "%s: %d warnings", policy, n)
	}
}

// Check warns of a server whose restarts nobody can notice.
func TestCheck_NoRunID(t *testing.T) {
	client := redistest.Start(t).Client()
	client.AddHook(redistest.Hook{After: func(_ context.Context, cmd redis.Cmder) error {
		if info, ok := cmd.(*redis.StringCmd); ok && cmd.Name() == "info" {
			info.SetVal(strings.ReplaceAll(info.Val(), "run_id:", "other:"))
		}
		return nil
	}})
	var log lines
	c := newCoordinator(t, client, Options{Log: slog.New(zerolog.NewSlogHandler(zerolog.New(&log)))})
	redistest.OK(t, c.Check(soon(t)))
	redistest.Equal(t, "warnings:", log.count("does not tell its run_id"), 1)
}

// A server that does not know a command refuses it as an ACL does.
func TestCheck_Renamed(t *testing.T) {
	c := newCoordinator(t, redistest.Start(t, "--rename-command", "INFO", "hidden").Client(), Options{})
	err := c.Check(soon(t))
	redistest.ErrorIf(t, err == nil || !strings.Contains(err.Error(), "does not allow this user INFO;"), "%v", err)
}

// Where replicas are missing a node begins with a warning, and is not ready.
func TestCheck_Replicas(t *testing.T) {
	server := redistest.Start(t)
	var log lines
	c := newCoordinator(t, server.Client(), Options{Replicas: 1, Log: slog.New(zerolog.NewSlogHandler(zerolog.New(&log)))})
	if err := c.Check(soon(t)); err != nil || log.count("fewer replicas than --replicas") != 1 {
		t.Errorf("without a replica: %v, and %d warnings", err, log.count("fewer replicas"))
	}
	if err := c.Ready(soon(t)); !errors.Is(err, room.ErrUnavailable) || !errors.Is(err, ErrReplicas) {
		t.Errorf("without a replica: %v", err)
	}
	host, port, err := net.SplitHostPort(server.Addr())
	redistest.OK(t, err)
	redistest.Start(t, "--replicaof", host+" "+port)
	redistest.Until(t, "the replica is there", func() bool { return c.Ready(soon(t)) == nil })
}

// Check says that it was led to a replica, which is why nothing can be written. What could not start need not be closed.
func TestCheck_Replica(t *testing.T) {
	var log lines
	replica := redistest.Start(t, "--replicaof", "127.0.0.1 1")
	c, err := New(replica.Client(), Options{Log: slog.New(zerolog.NewSlogHandler(zerolog.New(&log)))})
	redistest.OK(t, err)
	redistest.OK(t, c.Check(soon(t)))
	n := log.count("read-only replica")
	redistest.ErrorIf(t, n != 1 || log.count(replica.Addr()) != 1, "%d lines say so", n)
	if err := c.Start(soon(t)); !errors.Is(err, room.ErrUnavailable) || !strings.Contains(err.Error(), "READONLY") {
		t.Errorf("started with %v", err)
	}
}

// A node loses the permission for channels while it serves. Commits go on and happen once,
// and the log says once that nobody hears of them.
func TestCommit_EventRefused(t *testing.T) {
	server := redistest.Start(t)
	var log lines
	c := newCoordinator(t, asUser(t, server, EnoughRights("")), Options{Log: slog.New(zerolog.NewSlogHandler(zerolog.New(&log).Level(zerolog.InfoLevel)))})
	mustDo(t, c, "42", room.Join{User: "a", Session: "s"})
	redistest.OK(t, server.Client().Do(t.Context(), "ACL", "SETUSER", "roomd", "resetchannels").Err())
	for i := range 5 {
		redistest.Equal(t, "version", mustDo(t, c, "42", room.Join{User: fmt.Sprint("b", i), Session: "s"}).Version, uint64(i+2))
	}
	r := mustDo(t, c, "42", room.Leave{User: "a", Session: "s"})
	redistest.ErrorIf(t, r.Version != 7 || r.Count() != 5, "%d are left at version %d", r.Count(), r.Version)
	redistest.Equal(t, "lines say so:", log.count("not their events"), 1)
	redistest.OK(t, server.Client().Do(t.Context(), "ACL", "SETUSER", "roomd", "allchannels").Err())
	mustDo(t, c, "42", room.Join{User: "c", Session: "s"})
	redistest.OK(t, c.Close(soon(t)))
	n := log.count("over: ")
	redistest.ErrorIf(t, n != 1 || log.count(`"times":6`) != 1, "%d lines say that it is over", n)
}

func TestCheck_ManualHasTheRule(t *testing.T) {
	manual, err := os.ReadFile("../../cmd/roomd/operating/redis.md")
	redistest.ErrorIf(t, err != nil || !strings.Contains(string(manual), EnoughRights("")),
		"the manual does not have the ACL rule %q (%v)", EnoughRights(""), err)
}
