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
	minWarm     = 64 // clients that warm up a server
	warmDivisor = 10 // one in so many of all clients

	settleTimeout = 15 * time.Second
	settlePause   = 100 * time.Millisecond
)

// Memory is the memory of one server. Figures per connection are the increase divided by the number of connections.
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
	server, err := openChild(ctx, serverConfig{Server: c.who.name, Redis: c.redis.URL, Name: c.prefix + "node"})
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

// affordable returns how many clients a server may have if a process may open that many files; 0 means any number. A
// node keeps one file in eight, up to 1,024, for itself, and as many for connections that are no WebSockets.
func affordable(clients, files int) int {
	if files == 0 {
		return clients
	}
	return max(1, min(clients, files-2*max(128, min(files/8, 1024))))
}

// membership is whether a client is in its room, according to its last reply.
type membership int8

const (
	memberOut membership = iota
	memberIn
	memberUnsure // the last action failed, and may have had its effect
)

// maxTexts limits the violations that are described for each measurement.
const maxTexts = 5

// Violations counts the differences between rooms' lists and the replies of their users.
type Violations struct {
	Lost      int `json:"lost"`      // joined, but not in the list
	Phantom   int `json:"phantom"`   // in the list, but left or never joined
	Duplicate int `json:"duplicate"` // in the list a second time

	Shared int `json:"shared,omitempty"` // holds of a lock while another client also held it

	texts []string // the first ones
}

func (v *Violations) total() int { return v.Lost + v.Phantom + v.Duplicate + v.Shared }

// check compares a room's list, in any order, with the replies to its users.
func (v *Violations) check(room string, told map[string]membership, list []string) {
	seen := make(map[string]bool, len(list))
	for _, user := range list {
		switch {
		case seen[user]:
			v.Duplicate++
			v.describe("%s is more than once in %s", user, room)
		case told[user] == memberOut:
			v.Phantom++
			v.describe("%s is in %s and did not join", user, room)
		}
		seen[user] = true
	}
	for user, at := range told {
		if at == memberIn && !seen[user] {
			v.Lost++
			v.describe("%s joined %s and is not in it", user, room)
		}
	}
}

func (v *Violations) describe(format string, args ...any) {
	if len(v.texts) < maxTexts {
		v.texts = append(v.texts, fmt.Sprintf(format, args...))
	}
}

// place is a client's user and room.
type place struct {
	room       int // its number
	id         string
	user       string
	membership membership
}

// newPlaces returns the places of a workload's clients.
func newPlaces(w workload, rooms []string) []*place {
	list := make([]*place, w.clients)
	for i := range list {
		at := w.room(i)
		list[i] = &place{room: at, id: rooms[at], user: fmt.Sprintf("player-%d", i)}
	}
	return list
}

// player is a client of a node. It alternates between joining and leaving its room.
type player struct {
	*place
	node node
}

// act leaves the room if the player is certainly in it, and otherwise joins it. A second join does no harm.
func (p *player) act(ctx context.Context) error {
	act, done := p.node.join, memberIn
	if p.membership == memberIn {
		act, done = p.node.leave, memberOut
	}
	p.membership = memberUnsure
	if err := act(ctx, p.id, p.user); err != nil {
		return err
	}
	p.membership = done
	return nil
}

// check compares the list of every room with the replies to its users.
func (c *cell) check(ctx context.Context, rooms []string, places []*place) (v Violations, err error) {
	if c.who.members == nil {
		return v, nil
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	told := make([]map[string]membership, len(rooms))
	for i := range told {
		told[i] = make(map[string]membership)
		for _, user := range c.load.residents() {
			told[i][user] = memberIn
		}
	}
	for _, p := range places {
		told[p.room][p.user] = p.membership
	}
	for i, room := range rooms {
		list, err := c.who.members(ctx, c.rdb, room)
		if err != nil {
			return v, fmt.Errorf("read the lists: %w", err)
		}
		v.check(room, told[i], list)
	}
	return v, nil
}
