// Package unguarded is the comparison for roomd: the article's list without a lock. To join, a player GETs the list,
// appends a name, and SETs it. If another player writes in between, the list is outdated: players who were told "you
// are in" are missing, and there are more of them than seats. These three steps are the article's. Ours are JSON, a
// capacity, an expiry, WebSockets, and a wait between reading and writing, as on a slow network.
//
// It is for the page's stampede only, on a server without a key that listens on loopback. New returns the handler of
// its WebSocket, whose frames join and users are like those of /ws. Everything is limited: connections, requests per
// connection, lists, and players per list. A list is the key Lobby:Unguarded:<id> and expires after a minute.
//
// Each connection has one goroutine, and Close waits for all.
package unguarded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	"github.com/redis/go-redis/v9"

	"roomd/room"
	"roomd/transport/protocol"
)

const (
	maxConnections = 256
	maxPlayers     = 256 // per list
	maxRequests    = 64  // per connection
	maxFrame       = 1 << 10
	idle           = time.Minute
	patience       = 5 * time.Second // for Redis, and for a write
	maxGap         = 100             // ms between reading and writing
)

// Server is the handler of the WebSocket.
type Server struct {
	lists    lists
	local    func(host string) bool
	upgrader websocket.Upgrader
	life     context.Context // until Close
	stop     context.CancelFunc

	mu   sync.Mutex
	open int            // guarded by mu: number of all connections
	wait sync.WaitGroup // Add is called with mu held
}

// New returns a server of lists in the Redis of client, which the caller closes after Close. prefix starts their
// keys. local reports whether an HTTP Host names this machine; the server refuses other hosts.
func New(client redis.UniversalClient, prefix string, local func(host string) bool) *Server {
	s := &Server{
		lists: lists{client: client, prefix: prefix, expires: make(map[string]time.Time)}, local: local,
	}
	s.upgrader.Subprotocols = []string{protocol.Subprotocol}
	s.life, s.stop = context.WithCancel(context.Background())
	return s
}

// Close ends all connections, and waits for their goroutines.
func (s *Server) Close() {
	s.mu.Lock()
	s.stop()
	s.mu.Unlock()
	s.wait.Wait()
}

func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open >= maxConnections || s.life.Err() != nil {
		return false
	}
	s.open++
	s.wait.Add(1)
	return true
}

func (s *Server) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
	s.wait.Done()
}

// ServeHTTP answers GET /unguarded?user=NAME&capacity=N&gap=MS.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.local(r.Host) {
		http.Error(w, "this is for pages of this machine only", http.StatusForbidden)
		return
	}
	user, err := room.ParseUser(r.URL.Query().Get("user"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	capacity, err := strconv.ParseUint(r.URL.Query().Get("capacity"), 10, 32)
	if err != nil || capacity > room.MaxSeats {
		http.Error(w, "capacity must be a number of seats, or 0 for any", http.StatusBadRequest)
		return
	}
	if capacity == 0 || capacity > maxPlayers {
		capacity = maxPlayers
	}
	gap, err := strconv.ParseUint(cmp.Or(r.URL.Query().Get("gap"), "0"), 10, 32)
	if err != nil || gap > maxGap {
		http.Error(w, fmt.Sprintf("gap must be 0 to %d ms", maxGap), http.StatusBadRequest)
		return
	}
	if !s.enter() {
		http.Error(w, "too many connections", http.StatusServiceUnavailable)
		return
	}
	ws, err := s.upgrader.Upgrade(w, r, nil)
	if err != nil {
		s.leave()
		return // Upgrade has answered
	}
	go func() { // Close waits for this goroutine
		defer s.leave()
		defer ws.Close()
		defer context.AfterFunc(s.life, func() { _ = ws.Close() })()
		s.serve(ws, player{user, int(capacity), time.Duration(gap) * time.Millisecond})
	}()
}

type player struct {
	user     string
	capacity int           // of lists that it joins
	gap      time.Duration // between reading a list and writing it
}

func (s *Server) serve(ws *websocket.Conn, p player) {
	ws.SetReadLimit(maxFrame)
	for range maxRequests {
		_ = ws.SetReadDeadline(time.Now().Add(idle))
		kind, frame, err := ws.ReadMessage()
		if err != nil || kind != websocket.TextMessage {
			return
		}
		reply := s.answer(frame, p)
		_ = ws.SetWriteDeadline(time.Now().Add(patience))
		if ws.WriteMessage(websocket.TextMessage, protocol.AppendReply(nil, reply)) != nil {
			return
		}
	}
}

func (s *Server) answer(frame []byte, p player) *protocol.Reply {
	req, failed := protocol.DecodeRequest(frame)
	if failed != nil {
		return failed.Reply()
	}
	ctx, cancel := context.WithTimeout(s.life, patience)
	defer cancel()
	reply := &protocol.Reply{ID: &req.ID, Room: req.Room}
	err := room.CheckID(req.Room)
	switch {
	case err != nil:
	case req.Action == protocol.ActionJoin:
		var seat int
		if seat, err = s.lists.join(ctx, req.Room, p.user, p.capacity, p.gap); err == nil {
			reply.Seat = &seat
		}
	case req.Action == protocol.ActionUsers:
		var users []string
		users, err = s.lists.read(ctx, req.Room)
		reply.Count, reply.Users = len(users), seated(users)
	default:
		reply.Error = protocol.UnknownAction(req.Action)
	}
	if err != nil {
		reply.Error = errorOf(err)
	}
	return reply
}

func seated(users []string) []protocol.Seated {
	list := make([]protocol.Seated, 0, len(users))
	for seat, user := range users {
		list = append(list, protocol.Seated{User: user, Seat: seat})
	}
	return list
}

func errorOf(err error) *protocol.Error {
	switch {
	case errors.Is(err, errFull):
		return protocol.NewError(protocol.CodeRoomFull, "%v", err)
	case errors.Is(err, errTooMany):
		return protocol.NewError(protocol.CodeBusy, "%v", err)
	case errors.Is(err, room.ErrInvalid):
		return protocol.NewError(protocol.CodeBadRequest, "%v", err)
	}
	return protocol.NewError(protocol.CodeUnavailable, "Redis does not answer")
}
