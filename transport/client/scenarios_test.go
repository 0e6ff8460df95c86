package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"roomd/transport/client"
	"roomd/transport/internal/scenarios"
	"roomd/transport/protocol"
)

// This client does what every client has to do.
func TestClient_Scenarios(t *testing.T) {
	t.Parallel()
	scenarios.Run(t, func(t *testing.T, addresses []string) scenarios.Subject {
		ctx, cancel := context.WithCancel(context.Background())
		s := &subject{ctx: ctx, cancel: cancel, addresses: addresses, rooms: map[string]*client.Room{}, readers: map[string]*reader{}}
		t.Cleanup(s.close)
		return s
	})
}

// subject is a program that uses a client.
type subject struct {
	ctx       context.Context // ends with the client
	cancel    context.CancelFunc
	addresses []string
	wait      time.Duration // for how long a request waits

	mu      sync.Mutex
	client  *client.Client          // guarded by mu
	rooms   map[string]*client.Room // guarded by mu: also those that have ended
	readers map[string]*reader      // guarded by mu

	lists  chan string        // of the lobby; closed at its end
	last   chan string        // the error with which the lobby has ended, if with one
	unlist context.CancelFunc // ends that; nil before the first
}

// follow begins to follow the lobby.
func (s *subject) follow(text string) error {
	var q struct {
		Prefix, Contains string
		Labels           map[string]string
		Free             int
		Sort             string
	}
	if err := json.Unmarshal([]byte(text), &q); err != nil {
		return err
	}
	sort := map[string]client.LobbySort{"members": client.LobbyByMembers, "age": client.LobbyByAge}[q.Sort]
	ctx, cancel := context.WithCancel(context.Background())
	lists, last := make(chan string), make(chan string, 1)
	s.lists, s.last, s.unlist = lists, last, cancel
	go func() {
		defer close(lists)
		defer cancel()
		for l, err := range s.client.Lobby(ctx, client.LobbyQuery{Prefix: q.Prefix, Contains: q.Contains, Labels: q.Labels, Free: q.Free, Sort: sort}) {
			if err != nil {
				last <- "error " + code(err)
				return
			}
			select {
			case lists <- listing(l):
			case <-ctx.Done():
			case <-s.client.Done():
			}
		}
	}()
	return nil
}

// list returns the next list of rooms.
func (s *subject) list(ctx context.Context) string {
	select {
	case list, ok := <-s.lists:
		if ok {
			return list
		}
		select {
		case err := <-s.last:
			return err
		default:
			return "end"
		}
	case <-ctx.Done():
		return "error no list comes"
	}
}

// reader is an iteration.
type reader struct {
	next  func() (client.Change, bool)
	stop  func()
	first *client.Change // what next has returned already
}

func (s *subject) close() {
	s.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client != nil {
		s.client.Close()
	}
	for _, r := range s.readers {
		r.stop()
	}
}

// room returns a room, also one that has ended.
func (s *subject) room(id string) *client.Room {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.client.Room(id); r != nil {
		s.rooms[id] = r
	}
	return s.rooms[id]
}

func (s *subject) Do(ctx context.Context, command string, args ...string) string {
	answer, err := s.look(ctx, command, args)
	if answer == "" && err == nil {
		if s.wait > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, s.wait)
			defer cancel()
		}
		answer, err = s.ask(ctx, command, args)
	}
	switch {
	case err != nil:
		return "error " + code(err)
	case answer == "":
		return "ok"
	}
	return answer
}

// look answers what can be answered at once; otherwise the answer is empty.
func (s *subject) look(ctx context.Context, command string, args []string) (string, error) {
	switch command {
	case "connect":
		return "", s.connect(ctx, args[0])
	case "close":
		s.close()
		return "ok", nil
	case "lobby":
		return "ok", s.follow(args[0])
	case "unlist":
		s.unlist()
		return "ok", nil
	case "view":
		r := s.room(args[0])
		if s.client.Room(args[0]) == nil {
			return "none", nil
		}
		return view(r.View()), nil
	case "iterate":
		next, stop := iter.Pull(s.room(args[0]).Changes(context.Background()))
		first, ok := next()
		s.readers[args[1]] = &reader{next, stop, &first}
		return map[bool]string{true: "ok", false: "end"}[ok], nil
	case "next":
		return s.readers[args[0]].read(), nil
	case "state":
		if err := s.client.Err(); err != nil {
			return s.client.State().String() + " " + code(err), nil
		}
		return s.client.State().String(), nil
	case "ended":
		return ended(s.room(args[0])), nil
	}
	return "", nil
}

func (s *subject) connect(ctx context.Context, text string) error {
	defer context.AfterFunc(ctx, s.cancel)()
	var o scenarios.Options
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	s.wait = ms(o.Wait)
	cfg := client.Config{
		Addresses: s.addresses, User: o.User,
		BackoffBase: ms(o.Base), BackoffCap: ms(o.Cap), Idle: ms(o.Idle), IdleTimeout: ms(o.Silence),
	}
	if o.Tokens != nil {
		var mu sync.Mutex
		cfg.Token = func(context.Context) (string, error) {
			mu.Lock()
			defer mu.Unlock()
			token := o.Tokens[0]
			if len(o.Tokens) > 1 {
				o.Tokens = o.Tokens[1:]
			}
			return token, nil
		}
	}
	c, err := client.Connect(s.ctx, cfg)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.client = c
	return err
}

// ask does what waits for the server.
func (s *subject) ask(ctx context.Context, command string, args []string) (string, error) {
	switch command {
	case "connect":
		return "", nil
	case "list":
		return s.list(ctx), nil
	}
	id := args[0]
	switch command {
	case "join", "watch":
		return "", s.enter(ctx, command, args)
	case "users":
		reply, err := s.client.Users(ctx, id)
		if err != nil {
			return "", err
		}
		v := client.View{Epoch: reply.Epoch, Version: reply.Version, Users: slices.Clone(reply.Users), Data: reply.Data, Host: reply.Host}
		for i := range v.Users {
			v.Users[i].Private = reply.Private[v.Users[i].User]
		}
		if reply.Settings != nil {
			v.Settings = *reply.Settings
		}
		return view(v), nil
	}
	switch command {
	case "swap":
		_, err := s.client.Swap(ctx, id, args[1], args[2])
		return "", err
	case "shuffle":
		_, err := s.client.Shuffle(ctx, id)
		return "", err
	case "txn":
		txn, bad := protocol.DecodeRequest([]byte(`{"id":0,"action":"txn","room":"x","actions":` + args[1] + `}`))
		if bad != nil {
			return "", bad
		}
		_, err := s.client.Txn(ctx, id, txn.Actions)
		return "", err
	}
	r := s.room(id)
	switch command {
	case "leave":
		return "", r.Leave(ctx)
	case "unwatch":
		return "", r.Unwatch(ctx)
	case "ready":
		return "", r.Ready(ctx, args[1] == "true")
	case "set":
		return "", r.Set(ctx, json.RawMessage(args[1]))
	case "setMember":
		return "", r.SetMember(ctx, json.RawMessage(args[1]))
	case "setPrivate":
		return "", r.SetPrivate(ctx, json.RawMessage(args[1]))
	case "setPrivateOf":
		_, err := s.client.SetPrivateOf(ctx, id, args[1], json.RawMessage(args[2]))
		return "", err
	case "timer":
		return "", timer(ctx, r, args[1:])
	case "update":
		return "", add(ctx, r, args[1])
	case "propose":
		return "", r.Propose(ctx, json.RawMessage(args[1]))
	case "say", "sayTo":
		return "", say(ctx, r, args[1:])
	}
	return "", errors.New("unknown command " + command)
}

func (s *subject) enter(ctx context.Context, command string, args []string) error {
	enter := s.client.Join
	if command == "watch" {
		enter = s.client.Watch
	}
	if len(args) > 1 {
		var wish struct{ Seat, History int }
		if err := json.Unmarshal([]byte(args[1]), &wish); err != nil {
			return err
		}
		enter = func(ctx context.Context, id string) (*client.Room, error) {
			switch {
			case command == "watch":
				return s.client.WatchHistory(ctx, id, wish.History)
			case wish.History > 0:
				return s.client.JoinHistory(ctx, id, wish.History)
			}
			return s.client.JoinSeat(ctx, id, wish.Seat)
		}
	}
	r, err := enter(ctx, args[0])
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rooms[args[0]] = r
	return nil
}

func add(ctx context.Context, r *client.Room, text string) error {
	n, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	return r.Update(ctx, func(old protocol.JSON) (any, error) {
		var sum int
		err := old.Decode(&sum)
		return sum + n, err
	})
}

// say sends the last of args, which is JSON, to the user before it, or to all.
func say(ctx context.Context, r *client.Room, args []string) error {
	var m client.Message
	if err := json.Unmarshal([]byte(args[len(args)-1]), &m.Text); err != nil {
		return err
	}
	if len(args) > 1 {
		return r.SayTo(ctx, args[:1], m)
	}
	return r.Say(ctx, m)
}

// timer sets a timer to the ms of args[1] and, if there are more, with what it does; or cancels it, for null.
func timer(ctx context.Context, r *client.Room, args []string) error {
	if args[1] == "null" {
		return r.StopTimer(ctx, args[0])
	}
	ms, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	var then client.Then
	if len(args) > 2 {
		if err := json.Unmarshal([]byte(args[2]), &then); err != nil {
			return err
		}
	}
	return r.SetTimer(ctx, args[0], time.Duration(ms)*time.Millisecond, then)
}
