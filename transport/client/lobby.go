package client

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"roomd/room"
)

// LobbyQuery says which rooms of the lobby a client follows, and in which order. The zero value is all of them, by id.
type LobbyQuery struct {
	// Prefix is with what the ids begin.
	Prefix string
	// Contains is what the ids have somewhere.
	Contains string
	// Labels are those that the rooms have, perhaps among others.
	Labels map[string]string
	// Free is how many free seats there are at least, in rooms that are not closed. 0 is any number.
	Free int
	// Sort is the order: LobbyByID, which is the zero value, LobbyByMembers or LobbyByAge.
	Sort LobbySort
}

// LobbySort is an order of rooms. Where two are equal it is that of their ids.
type LobbySort int

// The orders of a [Lobby].
const (
	LobbyByID      LobbySort = iota
	LobbyByMembers           // the fullest first
	LobbyByAge               // the newest first
)

// Lobby is the list of the rooms that a [LobbyQuery] asks for, as the server has it at one moment.
type Lobby struct {
	// Rooms are in the order of the query. The slice is the reader's own.
	Rooms []LobbyRoom
	// Stale says that the client cannot reach a server any more, and goes on trying: Rooms are what was.
	Stale bool
}

// LobbyRoom is a room in the lobby.
type LobbyRoom struct {
	// Room is the id, with which [Client.Join] finds it.
	Room string `json:"room"`
	// Count is how many members there are.
	Count int `json:"count"`
	// Capacity is how many seats there are, and Free how many of them are free. A Capacity of 0 is as many as there
	// can be.
	Capacity int `json:"capacity"`
	Free     int `json:"free"`
	// Closed says that nobody comes in.
	Closed bool `json:"closed"`
	// Labels say what the room is for.
	Labels room.Labels `json:"labels"`
	// Since is when the lobby first had the room, in ms since 1970; 0 in its first moment.
	Since int64 `json:"since"`
}

// Lobby returns an iteration over the list of rooms: as it is when the loop begins, and then as it is whenever it has
// changed. Each list is a whole one. One that is over before the reader looks is left out, so a slow reader is shown
// the newest. It is also shown, as Stale, when no server can be reached.
//
// The list comes by HTTP from the addresses of [Config], on a connection of its own: it asks the next of
// them when that ends, after a pause as for the client's connection, and calls [Config.Token] for each.
//
// The iteration ends without an error when ctx ends. Otherwise its last pair has an error: that of Err if the client
// has ended; what the server refuses for good, as for [Connect]; or that of Config.Token for the first connection.
func (c *Client) Lobby(ctx context.Context, q LobbyQuery) iter.Seq2[Lobby, error] {
	return func(yield func(Lobby, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		f := newLobbyFollower(&c.cfg, q)
		if err := c.follow(ctx, f); err != nil {
			yield(Lobby{}, err)
			return
		}
		defer func() { cancel(); <-f.done }()
		for {
			select {
			case <-f.changed:
			case <-f.done:
			case <-ctx.Done():
			}
			list, news, err := f.look()
			switch {
			case ctx.Err() != nil:
				return
			case news && !yield(list, nil):
				return
			case !news && err != nil:
				if c.ctx.Err() != nil {
					<-c.done
					err = c.Err()
				}
				yield(Lobby{}, err)
				return
			}
		}
	}
}

// follow runs a follower until ctx or the client ends. It fails with the error of Err if the client has ended.
func (c *Client) follow(ctx context.Context, f *lobbyFollower) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	// the client's own goroutine runs as long as c.err is nil, so nobody has waited for them yet
	c.goroutines.Go(func() {
		defer close(f.done)
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(c.ctx, cancel)()
		f.end(f.run(ctx))
	})
	return nil
}

// values returns the query of the request.
func (q *LobbyQuery) values() url.Values {
	v := url.Values{"watch": {""}}
	for name, value := range map[string]string{"prefix": q.Prefix, "contains": q.Contains} {
		if value != "" {
			v.Set(name, value)
		}
	}
	for name, value := range q.Labels {
		v.Add("label", name+":"+value)
	}
	if q.Free != 0 {
		v.Set("free", strconv.Itoa(q.Free))
	}
	return v
}

// compare is the order of rooms.
func (q *LobbyQuery) compare(a, b LobbyRoom) int {
	first := 0
	switch q.Sort {
	case LobbyByMembers:
		first = b.Count - a.Count
	case LobbyByAge: // who is too new to have an age is the newest
		first = cmp.Compare(uint64(b.Since-1), uint64(a.Since-1))
	}
	return cmp.Or(first, cmp.Compare(a.Room, b.Room))
}

// lobbyFollower keeps a list of rooms as the server has it. One goroutine writes it, and one reads it.
type lobbyFollower struct {
	query     LobbyQuery
	connector connector
	changed   chan struct{} // has one element if the list has changed since the reader looked
	done      chan struct{} // closed when the goroutine that writes it ends

	mu    sync.Mutex
	rooms map[string]LobbyRoom // guarded by mu: by id; nil before the first list
	news  bool                 // guarded by mu: the list has changed since the reader looked
	stale bool                 // guarded by mu
	err   error                // guarded by mu: why it has ended
}

func newLobbyFollower(cfg *Config, q LobbyQuery) *lobbyFollower {
	return &lobbyFollower{query: q, connector: newConnector(cfg), changed: make(chan struct{}, 1),
		done: make(chan struct{})}
}

// look returns the list, whether it is news, and why there will be no other; nil if there may be.
func (f *lobbyFollower) look() (list Lobby, news bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if news = f.news; news {
		list = Lobby{Rooms: slices.SortedFunc(maps.Values(f.rooms), f.query.compare), Stale: f.stale}
	}
	f.news = false
	return list, news, f.err
}

// change changes what the reader sees.
func (f *lobbyFollower) change(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	f.news = f.rooms != nil
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// end records why no other list comes.
func (f *lobbyFollower) end(why error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = why
}

// run makes one connection after the other, and returns why there is no further one.
func (f *lobbyFollower) run(ctx context.Context) error {
	k := &f.connector
	for {
		var stream *lobbyStream
		final, err := k.attempt(ctx, func(address, _ string, opts Options) (err error) {
			stream, err = openLobby(ctx, k.cfg, address, f.query.values(), opts)
			return err
		})
		switch {
		case err == nil:
			began := time.Now()
			f.read(stream)
			if time.Since(began) >= settled {
				k.backoff.Reset()
			}
		case final:
			return err
		case ctx.Err() == nil:
			f.change(func() { f.stale = true })
		}
		if err := k.backoff.Wait(ctx); err != nil {
			return err
		}
	}
}

// read takes over what a connection says, until it ends.
func (f *lobbyFollower) read(stream *lobbyStream) {
	defer stream.close()
	var parts []lobbyEvent
	for {
		e, err := stream.next()
		if err != nil {
			return
		}
		if parts = append(parts, e); e.More {
			continue
		}
		f.change(func() {
			for _, part := range parts {
				f.apply(part)
			}
			f.stale = false
		})
		parts = nil
	}
}

// apply does what an event says. The mutex is held.
func (f *lobbyFollower) apply(e lobbyEvent) {
	if e.name == lobbyWhole || f.rooms == nil {
		f.rooms = make(map[string]LobbyRoom, len(e.Rooms))
	}
	for _, r := range e.Rooms {
		f.rooms[r.Room] = r
	}
	for _, id := range e.Gone {
		delete(f.rooms, id)
	}
}
