package coordinator

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"roomd/lockmgr/redistest"
	"roomd/room"
)

// A node says once with which settings others run, and nothing of those that have its own.
func TestNodes_OtherSettingsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, rdb := redistest.Mini(t)
		var log lines
		start := func(opts Options) *Coordinator {
			c := newCoordinator(t, redistest.MiniClient(t, mini), opts)
			redistest.OK(t, c.Start(t.Context()))
			return c
		}
		opts := Options{Rules: room.Rules{Seating: room.Capacity(4)}}
		start(Options{Rules: opts.Rules, Log: slog.New(zerolog.NewSlogHandler(zerolog.New(&log)))})
		start(opts)
		time.Sleep(time.Minute)
		if n := log.count("other settings"); n != 0 {
			t.Fatalf("%d lines about a node with the same settings", n)
		}
		other := Options{Address: "10.0.0.7:8080", LockTTL: 2 * time.Second, NodeTTL: 7 * time.Second, Grace: time.Minute, Rules: room.Rules{Duplicate: room.Reject, Name: "teams-2"}, Journal: 100}
		start(other)
		start(other)
		time.Sleep(time.Minute)
		want := "node-ttl 7s instead of 5s, grace 1m0s instead of 10s, lock-ttl 2s instead of 3s, capacity 65536 instead of 4, journal 100 instead of 0, rules teams-2 instead of standard, duplicate reject instead of replace"
		n := log.count("other settings")
		redistest.ErrorIf(t, n != 1 || log.count(want) != 1 || log.count("10.0.0.7:8080") != 1, "%d lines say so", n)
		rdb.Set(t.Context(), unprefixed.Lease("old"), "1 5000 3000 10.0.0.8:8080", time.Hour) // of an older version; before anybody can look for it
		redistest.OK(t, rdb.ZAdd(t.Context(), unprefixed.Nodes(""), redis.Z{Score: 1, Member: "old"}).Err())
		time.Sleep(10 * time.Second)
		redistest.ErrorIf(t, log.count("grace 3s instead of 10s\"") != 1,
			"nothing about a node that says only its grace")
	})
}

// Nodes lists who lives, with the settings that they run with.
func TestNodes(t *testing.T) {
	server := redistest.Start(t)
	c := newCoordinator(t, server.Client(), Options{})
	if nodes, err := c.Nodes(soon(t)); err != nil || len(nodes) > 0 {
		t.Errorf("before any has started: %v, %v", nodes, err)
	}
	other := newCoordinator(t, server.Client(), Options{Address: "10.0.0.7:8080", Grace: time.Second})
	redistest.OK(t, other.Start(soon(t)))
	server.Client().ZAdd(t.Context(), unprefixed.Nodes(""), redis.Z{Score: 1, Member: "dead"})
	nodes, err := c.Nodes(soon(t))
	if err != nil || len(nodes) != 1 || nodes[0].Name != other.Node() || nodes[0].Address != "10.0.0.7:8080" {
		t.Fatalf("%+v, %v", nodes, err)
	}
	redistest.ErrorIf(t, nodes[0].Settings != other.Settings(),
		"settings %+v, want %+v", nodes[0].Settings, other.Settings())
	redistest.Equal(t, "differences:", c.Settings().Differences(nodes[0].Settings), "grace 1s instead of 10s")
	server.Kill()
	if _, err := c.Nodes(soon(t)); err == nil || !strings.Contains(err.Error(), room.ErrUnavailable.Error()) {
		t.Errorf("without Redis: %v", err)
	}
}
