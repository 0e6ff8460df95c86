package client

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"roomd/room"
	"roomd/transport/protocol"
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

// Lobby returns an iteration over lists of rooms: the current list, and then a new one whenever the list has changed.
// Each list is complete. A slow reader skips lists and gets the newest. If no server can be reached, the reader gets
// the last list as Stale.
//
// The list comes by HTTP from the addresses of [Config], on a connection of its own. When that connection ends, the
// client asks the next address, after a pause as before a reconnect, and calls [Config.Token] each time.
//
// The iteration ends without an error when ctx ends. Otherwise its last pair has an error: the client's Err if it has
// ended, or one that no retry can mend, as for [Connect].
func (c *Client) Lobby(ctx context.Context, q LobbyQuery) iter.Seq2[Lobby, error] {
	return func(yield func(Lobby, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		f := &lobbyFollower{query: q, connector: newConnector(&c.cfg), lists: make(chan Lobby, 1)}
		c.follow(ctx, f)
		defer func() {
			cancel()
			for range f.lists { // is closed when the follower has ended
			}
		}()
		for list := range f.lists {
			if ctx.Err() != nil || !yield(list, nil) {
				return
			}
		}
		if ctx.Err() == nil {
			yield(Lobby{}, f.err)
		}
	}
}

// follow starts a follower, which runs until ctx or the client ends.
func (l *link) follow(ctx context.Context, f *lobbyFollower) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f.err = l.err; l.err != nil {
		close(f.lists)
		return
	}
	// l.err is nil, so the client's own goroutine still runs, and nobody waits for goroutines yet.
	l.goroutines.Go(func() {
		defer close(f.lists)
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(l.ctx, cancel)()
		f.err = f.run(ctx)
		if l.ctx.Err() != nil {
			<-l.done
			f.err = l.err
		}
	})
}

// values returns q as the query of a request for the lobby.
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

// lobbyFollower keeps a copy of the server's list. One goroutine runs it, and another reads the lists.
type lobbyFollower struct {
	query     LobbyQuery
	connector connector
	rooms     map[string]LobbyRoom // by id; nil before the first list
	lists     chan Lobby           // has the newest list, unless that was read; closed when err is set
	err       error                // why no other list follows
}

// show passes the current list, if any, on to the reader, in place of a list that was not read yet.
func (f *lobbyFollower) show(stale bool) {
	if f.rooms == nil {
		return
	}
	select {
	case <-f.lists:
	default:
	}
	f.lists <- Lobby{Rooms: slices.SortedFunc(maps.Values(f.rooms), f.query.compare), Stale: stale}
}

// run makes one connection after the other, and returns the error that makes another useless.
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
			f.show(true)
		}
		if err := k.backoff.Wait(ctx); err != nil {
			return err
		}
	}
}

// read applies the events of a stream until it ends, and shows each complete list.
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
		for _, part := range parts {
			f.apply(part)
		}
		parts = nil
		f.show(false)
	}
}

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

// Names of the server's events.
const (
	lobbyWhole   = "rooms"   // a list that replaces the earlier one
	lobbyChanges = "changes" // new state of some rooms, and ids of those that are gone
)

// Limits of a lobbyStream.
const (
	maxLobbyLine = 16 << 20         // bytes: ten times as much as 1,000 rooms with the longest ids and labels
	lobbySilence = 30 * time.Second // twice the longest silence of a server
)

type lobbyEvent struct {
	name  string
	Rooms []LobbyRoom `json:"rooms"`
	Gone  []string    `json:"gone"`
	More  bool        `json:"more"` // the next event continues the list
}

// lobbyStream is the stream of server-sent events from one server.
type lobbyStream struct {
	cancel    context.CancelFunc
	transport *http.Transport
	body      io.ReadCloser
	lines     *bufio.Scanner
	silence   *time.Timer
}

// openLobby asks a server for its lobby. Errors are as for Dial.
func openLobby(ctx context.Context, cfg *Config, address string, query url.Values,
	opts Options) (*lobbyStream, error) {
	u, err := parseURL(address, "")
	if err != nil {
		return nil, err
	}
	u = u.ResolveReference(&url.URL{Path: "api/rooms", RawQuery: query.Encode()}) // in place of ws
	u.Scheme = map[string]string{"ws": "http", "wss": "https"}[u.Scheme]
	header, err := opts.handshakeHeader(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &lobbyStream{cancel: cancel, silence: time.AfterFunc(cfg.HandshakeTimeout, cancel), transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: cfg.TLS.Clone(), DisableCompression: true,
		DialContext: cfg.dialNet,
	}}
	if err := s.open(ctx, u.String(), header); err != nil {
		s.close()
		return nil, fmt.Errorf("client: lobby of %s://%s%s: %w", u.Scheme, u.Host, u.Path, err)
	}
	return s, nil
}

func (s *lobbyStream) open(ctx context.Context, address string, header http.Header) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	maps.Copy(req.Header, header)
	req.Header.Set("Accept", "text/event-stream, application/problem+json")
	resp, err := s.transport.RoundTrip(req) // unlike a client, it does not follow redirects, which could leak the token
	if err != nil {
		return err
	}
	s.body = resp.Body
	if resp.StatusCode != http.StatusOK {
		return problemOf(resp)
	}
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind != "text/event-stream" {
		return fmt.Errorf("%w (its type: %q)", errNotRoomd, kind)
	}
	s.lines = bufio.NewScanner(resp.Body)
	s.lines.Buffer(nil, maxLobbyLine)
	s.silence.Reset(lobbySilence)
	return nil
}

// problemOf returns the error of a response that is a problem document (RFC 9457).
func problemOf(resp *http.Response) error {
	var problem struct{ Code, Detail string }
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	err := error(errNotRoomd)
	if json.Unmarshal(body, &problem, json.MatchCaseInsensitiveNames(true)) == nil && problem.Code != "" {
		err = protocol.NewError(problem.Code, "%s", problem.Detail)
	}
	return &statusError{resp.StatusCode, resp.Status, err}
}

// close ends the response and the connection.
func (s *lobbyStream) close() {
	s.silence.Stop()
	s.cancel()
	if s.body != nil {
		_ = s.body.Close()
	}
	s.transport.CloseIdleConnections()
}

// next waits for the next event about rooms. It fails when the response ends, is silent for too long, or is no JSON.
func (s *lobbyStream) next() (e lobbyEvent, err error) {
	var data strings.Builder
	for s.lines.Scan() {
		s.silence.Reset(lobbySilence)
		switch name, value, _ := strings.Cut(s.lines.Text(), ":"); {
		case name == "event":
			e.name = strings.TrimPrefix(value, " ")
		case name == "data":
			data.WriteString(value)
		case s.lines.Text() != "" || data.Len() == 0: // a comment, or a field that this client does not know
		case e.name == lobbyWhole, e.name == lobbyChanges:
			err = json.Unmarshal([]byte(data.String()), &e)
			return e, err
		default: // an event of a newer server
			e = lobbyEvent{}
			data.Reset()
		}
	}
	if err = s.lines.Err(); err == nil {
		err = io.EOF
	}
	return e, err
}
