package bench

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"time"

	"roomd/loadtest/report"
	"roomd/lockmgr/redisconn/pause"
)

const (
	defaultConnections = 10_000
	minWarm            = 64 // clients that warm up a server
	warmDivisor        = 10 // one in so many of all clients

	settleTimeout = 15 * time.Second
	settlePause   = 100 * time.Millisecond
)

// Memory is the memory of one server. Figures per connection are the increase divided by the number of
// connections.
type Memory struct {
	Connections int           `json:"connections"` // open connections of the server
	Before      report.Figure `json:"before_mib"`  // resident, after freeing
	Resident    report.Figure `json:"resident_kib_per_connection"`
	Freed       report.Figure `json:"freed_kib_per_connection"` // resident, after freeing
	Heap        report.Figure `json:"heap_kib_per_connection"`  // in use after freeing
	Stack       report.Figure `json:"stack_kib_per_connection"` // in use after freeing
	Goroutines  report.Figure `json:"goroutines_per_connection"`
}

// tryMemory measures a server in a process of its own. Some clients come and go first, so that one-time costs,
// such as its connections to Redis, are not counted.
func (c *cell) tryMemory(ctx context.Context) (*Result, error) {
	server, err := openChild(ctx, task{Server: c.who.name, Redis: c.redis.URL, Name: c.prefix + "node"})
	if err != nil {
		return nil, err
	}
	defer server.Close()
	places := newPlaces(c.load, c.load.names(c.prefix))
	address := func(int) string { return server.url }
	warming, err := connect(ctx, places[:min(len(places), max(minWarm, len(places)/warmDivisor))], address,
		func(warming *crowd, i int) error {
			if !c.load.join {
				return nil
			}
			return cmp.Or(warming.act(i), warming.act(i)) // joins and leaves
		})
	if err != nil {
		return nil, err
	}
	warming.close()
	if _, err := settle(ctx, server); err != nil {
		return nil, err
	}
	before, err := server.ask(url.Values{"free": {"1"}})
	if err != nil {
		return nil, err
	}
	crowd, err := connect(ctx, places, address, func(crowd *crowd, i int) error {
		if c.load.join {
			if err := crowd.act(i); err != nil {
				return err
			}
		}
		crowd.listen(i)
		return nil
	})
	if err != nil {
		return nil, err
	}
	defer crowd.close()
	asIs, err := settle(ctx, server)
	if err != nil {
		return nil, err
	}
	how := url.Values{"free": {"1"}}
	if c.load.join && c.who.name == roomdName {
		how.Set("heap", c.heapProfile)
	}
	freed, err := server.ask(how)
	if err != nil {
		return nil, err
	}
	if freed.Connections != len(places) {
		return nil, fmt.Errorf("the server has %d connections of %d", freed.Connections, len(places))
	}
	r := newResult(new(measurement), Violations{})
	r.Memory = newMemory(before, asIs, freed)
	return r, nil
}

func newMemory(before, asIs, freed answer) *Memory {
	n := float64(freed.Connections)
	each := func(after, before int64) report.Figure {
		if after == 0 { // unknown
			return unknown
		}
		return report.Per(float64(after-before)/1024, n)
	}
	m := &Memory{
		Connections: freed.Connections,
		Before:      unknown,
		Resident:    each(asIs.Resident, before.Resident),
		Freed:       each(freed.Resident, before.Resident),
		Heap:        each(freed.Heap, before.Heap),
		Stack:       each(freed.Stack, before.Stack),
		Goroutines:  report.Per(float64(freed.Goroutines-before.Goroutines), n),
	}
	if before.Resident > 0 {
		m.Before = report.Figure(float64(before.Resident) / (1 << 20))
	}
	return m
}

// settle waits until the server's number of goroutines is stable, but not for ever, and returns its usage.
func settle(ctx context.Context, server *child) (a answer, err error) {
	deadline := time.Now().Add(settleTimeout)
	for last, same := -1, 0; ; last = a.Goroutines {
		if a, err = server.ask(nil); err != nil {
			return a, err
		}
		if same++; a.Goroutines != last {
			same = 0
		}
		if same == 3 || time.Now().After(deadline) {
			return a, nil
		}
		if err := pause.For(ctx, settlePause); err != nil {
			return a, err
		}
	}
}

// affordable returns how many clients a server may have if a process may open that many files; 0 means any
// number. A node keeps one file in eight, up to 1,024, for itself, and as many for connections that are no
// WebSockets.
func affordable(clients, files int) int {
	if files == 0 {
		return clients
	}
	return max(1, min(clients, files-2*max(128, min(files/8, 1024))))
}
