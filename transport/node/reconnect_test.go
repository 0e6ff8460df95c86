package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/transport/client"
	"roomd/transport/protocol"
)

// regular is a player who stays connected, and keeps a copy of the room by its changes alone.
type regular struct {
	name string
	c    *client.Client
	room *client.Room
	seat int

	sure, unsure int // how often it has counted up, and may have

	mu      sync.Mutex
	users   map[string]protocol.Seated // guarded by mu
	data    protocol.JSON              // guarded by mu
	version uint64                     // guarded by mu
	heard   chan struct{}              // guarded by mu: closed with the next change
	left    []string                   // guarded by mu: who was seen to leave
	resets  int                        // guarded by mu: snapshots
}

func addresses(nodes []*process) []string {
	var all []string
	for _, p := range nodes {
		all = append(all, "ws://"+p.addr+"/ws")
	}
	return all
}

// connectAs returns a client that ends with the test.
func connectAs(t *testing.T, name string, at ...string) *client.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	c, err := client.Connect(ctx, client.Config{Addresses: at, User: name})
	redistest.OK(t, err)
	t.Cleanup(c.Close)
	return c
}

func newRegular(t *testing.T, name, room string, at ...string) *regular {
	t.Helper()
	p := &regular{name: name, c: connectAs(t, name, at...), heard: make(chan struct{})}
	var err error
	if p.room, err = p.c.Join(t.Context(), room); err != nil {
		t.Fatal(err)
	}
	p.seat, _ = p.room.Seat()
	return p
}

// follow applies what the iteration yields.
func (p *regular) follow(ctx context.Context) {
	for c := range p.room.Changes(ctx) {
		p.mu.Lock()
		switch c.Type {
		case client.ChangeSnapshot:
			p.users, p.data = map[string]protocol.Seated{}, c.View.Data
			p.resets++
			for _, u := range c.View.Users {
				p.users[u.User] = u
			}
		case protocol.ChangeJoin:
			p.users[c.User] = protocol.Seated{User: c.User, Seat: c.Seat, Away: c.Away}
		case protocol.ChangeLeave:
			delete(p.users, c.User)
			p.left = append(p.left, c.User+" "+c.Reason)
		case protocol.ChangeData:
			p.data = c.Data
		case protocol.ChangeAway, protocol.ChangeBack:
			u := p.users[c.User]
			u.Away = c.Type == protocol.ChangeAway
			p.users[c.User] = u
		case protocol.ChangeMember:
			u := p.users[c.User]
			u.Change(&c.Change)
			p.users[c.User] = u
		}
		p.version = c.Version
		close(p.heard)
		p.heard = make(chan struct{})
		p.mu.Unlock()
	}
}

// count counts up the room's data each time that it may, until ctx ends.
func (p *regular) count(t *testing.T, ctx context.Context, may <-chan time.Time) {
	for {
		select {
		case <-may:
		case <-ctx.Done():
			return
		}
		err := p.room.Update(ctx, func(old protocol.JSON) (any, error) {
			n := 0
			err := old.Decode(&n)
			return n + 1, err
		})
		var refused *protocol.Error
		switch {
		case err == nil:
			p.sure++
		case errors.Is(err, protocol.ErrUnknown), errors.Is(err, ctx.Err()) && ctx.Err() != nil:
			p.unsure++
		case errors.As(err, &refused) && (refused.Retry || refused.Is(protocol.ErrNotMember)):
		default:
			t.Errorf("%s: %v", p.name, err)
			return
		}
	}
}

// until waits until the copy is as wanted.
func (p *regular) until(t *testing.T, what string, is func() bool) {
	t.Helper()
	patience := time.After(20 * time.Second)
	for {
		p.mu.Lock()
		ok, heard := is(), p.heard
		p.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-heard:
		case <-patience:
			t.Fatalf("%s: not %s: version %d, %v", p.name, what, p.version, p.users)
		}
	}
}

// settle waits until every player of a room has said so and seen that of the others, and checks that
// all have the same room as the server, and the seats that they had.
func settle(t *testing.T, table []*regular) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for _, p := range table {
		err := errors.New("not yet")
		for err != nil && ctx.Err() == nil { // a failure may still be under way
			err = p.room.SetMember(ctx, "settled")
		}
		if err != nil {
			t.Fatalf("%s: %v; the room: %v", p.name, err, p.room.Err())
		}
	}
	for _, p := range table {
		p.until(t, "settled", func() bool {
			settled := 0
			for _, u := range p.users {
				if u.Data == `"settled"` && !u.Away {
					settled++
				}
			}
			return settled == len(table)
		})
	}
	for _, p := range table {
		var list *protocol.Reply
		var view client.View
		redistest.Until(t, p.name+" has the server's list", func() bool { // a commit may come, or an epoch end, after it was read
			var err error
			list, err = table[0].c.Users(ctx, table[0].room.ID())
			redistest.OK(t, err)
			view = p.room.View()
			return view.Version == list.Version && view.Epoch == list.Epoch
		})
		// Not each version changes what one sees: a member may have got another session.
		p.until(t, fmt.Sprintf("as the server's list %v, %s", list.Users, list.Data), func() bool {
			users := slices.SortedFunc(maps.Values(p.users), func(a, b protocol.Seated) int { return a.Seat - b.Seat })
			return slices.Equal(users, list.Users) && p.data == list.Data
		})
		seat, member := p.room.Seat()
		if !slices.Equal(view.Users, list.Users) || view.Data != list.Data {
			t.Errorf("%s has version %d: %v, %s\nthe server %d: %v, %s", p.name, view.Version, view.Users, view.Data, list.Version, list.Users, list.Data)
		}
		if !member || seat != p.seat || view.Users[slices.IndexFunc(view.Users, func(u protocol.Seated) bool { return u.User == p.name })].Seat != seat {
			t.Errorf("%s had seat %d and has %d (%v)", p.name, p.seat, seat, member)
		}
		p.mu.Lock()
		if len(p.left) > 0 {
			t.Errorf("%s saw leave: %q", p.name, p.left)
		}
		p.mu.Unlock()
	}
}

// Players who stay connected count up the data of their rooms while nodes restart one after the
// other, or die, or Redis loses everything. Nobody loses the seat or misses a change, and, unless
// Redis has forgotten it, no acknowledged count is lost.
func TestReconnect_ClientsStayConnected(t *testing.T) {
	redistest.Thorough(t)
	t.Parallel() // it mostly waits
	const rooms, players = 6, 36
	roll := func(how os.Signal) func(*redistest.Server, []*process) {
		return func(_ *redistest.Server, nodes []*process) {
			for _, p := range nodes {
				p.stop(how)
				p.start()
				if how == os.Kill {
					return
				}
			}
		}
	}
	for _, tt := range []struct {
		name    string
		trouble func(*redistest.Server, []*process)
		pace    time.Duration // of the counts; the trouble that lasts leaves the processors time for other tests
		forgets bool
	}{
		{"rolling restart", roll(syscall.SIGTERM), 2 * time.Millisecond, false},
		{"a node is killed", roll(os.Kill), time.Microsecond, false},
		{"Redis is emptied", func(s *redistest.Server, _ []*process) { s.Restart() }, time.Microsecond, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := redistest.Start(t)
			nodes := launch(t, 3, server.URL(), "--rate", "off")
			tables := make([][]*regular, rooms)
			var followers, counters sync.WaitGroup
			ctx, stop := context.WithCancel(t.Context())
			following, end := context.WithCancel(t.Context())
			defer followers.Wait()
			defer end()
			defer counters.Wait()
			defer stop()
			pace := time.NewTicker(tt.pace)
			defer pace.Stop()
			for i := range players {
				p := newRegular(t, fmt.Sprint("player", i), fmt.Sprint(i%rooms), addresses(nodes)...)
				tables[i%rooms] = append(tables[i%rooms], p)
				followers.Go(func() { p.follow(following) })
				counters.Go(func() { p.count(t, ctx, pace.C) })
			}
			tt.trouble(server, nodes)
			stop()
			counters.Wait()
			all := 0
			for _, table := range tables {
				settle(t, table)
				sure, unsure := 0, 0
				for _, p := range table {
					sure, unsure = sure+p.sure, unsure+p.unsure
				}
				all += sure
				for _, p := range table {
					if tt.name == "rolling restart" && p.resets < 2 {
						t.Errorf("%s has not connected again", p.name)
					}
				}
				if n, _ := strconv.Atoi(string(table[0].room.Data())); !tt.forgets && (n < sure || n > sure+unsure) {
					t.Errorf("the room has counted to %d; %d counts were acknowledged, %d may have been done", n, sure, unsure)
				}
			}
			if all < 10*rooms {
				t.Errorf("only %d counts", all)
			}
			t.Logf("%d counts were acknowledged", all)
		})
	}
}
