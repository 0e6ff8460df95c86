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

// LobbyQuery selects and sorts rooms of the lobby. The zero value selects all, by id.
type LobbyQuery struct {
	// Prefix is the start of the ids.
	Prefix string
	// Contains is a part of the ids.
	Contains string
	// Labels are labels that the rooms have; they may have others, too.
	Labels map[string]string
	// Free is the least number of free seats, in rooms that are not closed. 0 selects any room.
	Free int
	// Sort is the order: LobbyByID (the zero value), LobbyByMembers or LobbyByAge.
	Sort LobbySort
}

// LobbySort is an order of rooms. Equal rooms are sorted by id.
type LobbySort int

// The orders of a [Lobby].
const (
	LobbyByID      LobbySort = iota
	LobbyByMembers           // the fullest first
	LobbyByAge               // the newest first
)

// Lobby is the server's list of the rooms of a [LobbyQuery] at one moment.
type Lobby struct {
	// Rooms are in the order of the query. The reader owns the slice.
	Rooms []LobbyRoom
	// Stale says that the client has lost its server, and keeps trying. Rooms is the last list.
	Stale bool
}

// LobbyRoom is a room in the lobby.
type LobbyRoom struct {
	// Room is the id, for [Client.Join].
	Room string `json:"room"`
	// Count is the number of members.
	Count int `json:"count"`
	// Capacity is the number of seats, and Free the number of free ones. A Capacity of 0 means no limit.
	Capacity int `json:"capacity"`
	Free     int `json:"free"`
	// Closed says that nobody may enter.
	Closed bool `json:"closed"`
	// Labels say what the room is for.
	Labels room.Labels `json:"labels"`
	// Since is when the lobby got the room, in ms since 1970; 0 for a room that is only just there.
	Since int64 `json:"since"`
}

// Lobby returns an iteration over lists of rooms: the current list, and then a new one whenever the list has
// changed. Each list is complete. A slow reader skips lists and gets the newest. If no server can be reached,
// the reader gets the last list as Stale.
//
// The list comes by HTTP from the addresses of [Config], on a connection of its own. When that connection ends,
// the client asks the next address, after a pause as before a reconnect, and calls [Config.Token] each time.
//
// The iteration ends without an error when ctx ends. Otherwise its last pair has an error: that of Err if the
// client has ended; the server's final refusal, as for [Connect]; or that of Config.Token for the first
// connection.
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

// follow runs a follower until ctx or the client ends. It returns the error of Err if the client has ended.
func (l *link) follow(ctx context.Context, f *lobbyFollower) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	// l.err is nil, so the client's own goroutine still runs, and nobody waits for goroutines yet.
	l.goroutines.Go(func() {
		defer close(f.done)
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(l.ctx, cancel)()
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

// compare compares rooms in the query's order.
func (q *LobbyQuery) compare(a, b LobbyRoom) int {
	first := 0
	switch q.Sort {
	case LobbyByMembers:
		first = b.Count - a.Count
	case LobbyByAge: // a room without an age is the newest
		first = cmp.Compare(uint64(b.Since-1), uint64(a.Since-1))
	}
	return cmp.Or(first, cmp.Compare(a.Room, b.Room))
}

// lobbyFollower keeps a copy of the server's list. One goroutine writes it, and one reads it.
type lobbyFollower struct {
	query     LobbyQuery
	connector connector
	changed   chan struct{} // has an element if the list has changed since the last look
	done      chan struct{} // closed when the writing goroutine ends

	mu    sync.Mutex
	rooms map[string]LobbyRoom // guarded by mu: by id; nil before the first list
	news  bool                 // guarded by mu: the list has changed since the last look
	stale bool                 // guarded by mu
	err   error                // guarded by mu: why it has ended
}

func newLobbyFollower(cfg *Config, q LobbyQuery) *lobbyFollower {
	return &lobbyFollower{query: q, connector: newConnector(cfg), changed: make(chan struct{}, 1),
		done: make(chan struct{})}
}

// look returns the list, whether it is new, and the error after which no other list follows.
func (f *lobbyFollower) look() (list Lobby, news bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if news = f.news; news {
		list = Lobby{Rooms: slices.SortedFunc(maps.Values(f.rooms), f.query.compare), Stale: f.stale}
	}
	f.news = false
	return list, news, f.err
}

// change calls change with the mutex held, and wakes the reader.
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

// end records why no other list follows.
func (f *lobbyFollower) end(why error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = why
}

// run makes one connection after the other, and returns the error after which it makes no other.
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

// read applies the events of a connection, until it ends.
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

// apply applies an event. The mutex is held.
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
