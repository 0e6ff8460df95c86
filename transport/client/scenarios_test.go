package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/transport/client"
	"roomd/transport/protocol"
	"roomd/transport/scenarios"
)

// This client does what every client has to do.
func TestClient_Scenarios(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), asProgram+"=1"), os.Stderr
	redistest.OK(t, scenarios.Check(t.Context(), cmd, scenarios.All(), func(s scenarios.Scenario, err error) {
		t.Run(s.Name, func(t *testing.T) { redistest.OK(t, err) })
	}))
}

// subject is a program that uses a client.
type subject struct {
	ctx    context.Context // ends with the client
	cancel context.CancelFunc
	wait   time.Duration // for how long a request waits

	mu      sync.Mutex
	client  *client.Client          // guarded by mu
	rooms   map[string]*client.Room // guarded by mu: also those that have ended
	readers map[string]*reader      // guarded by mu

	lists  chan string        // of the lobby; closed at its end
	last   chan error         // the error with which the lobby has ended, if with one
	unlist context.CancelFunc // ends that; nil before the first
}

// follow begins to follow the lobby.
func (s *subject) follow(ask request) {
	q := ask.Query
	sort := map[string]client.LobbySort{"members": client.LobbyByMembers, "age": client.LobbyByAge}[q.Sort]
	ctx, cancel := context.WithCancel(context.Background())
	lists, last := make(chan string), make(chan error, 1)
	s.lists, s.last, s.unlist = lists, last, cancel
	go func() {
		defer close(lists)
		defer cancel()
		query := client.LobbyQuery{Prefix: q.Prefix, Contains: q.Contains, Labels: q.Labels, Free: q.Free, Sort: sort}
		for l, err := range s.client.Lobby(ctx, query) {
			if err != nil {
				last <- err
				return
			}
			select {
			case lists <- listing(l):
			case <-ctx.Done():
			case <-s.client.Done():
			}
		}
	}()
}

// list returns the next list of rooms.
func (s *subject) list() (string, error) {
	if list, ok := <-s.lists; ok {
		return list, nil
	}
	select {
	case err := <-s.last:
		return "", err
	default:
		return "end", nil
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

// carryOut answers a line of the kit. What look and users return is JSON or a word.
func (s *subject) carryOut(ask request) answer {
	text, waits, err := s.look(ask)
	if waits {
		ctx, cancel := s.ctx, context.CancelFunc(func() {})
		if s.wait > 0 {
			ctx, cancel = context.WithTimeout(context.Background(), s.wait)
		}
		defer cancel()
		if ask.Do == "users" {
			text, err = s.users(ctx, ask.Room)
		} else {
			err = s.ask(ctx, ask)
		}
	}
	a := answer{ID: ask.ID}
	switch {
	case err != nil:
		a.Error, a.Message = code(err), err.Error()
	case json.Valid([]byte(text)):
		a.Result = json.RawMessage(text)
	case text != "":
		a.Result, _ = json.Marshal(text)
	}
	return a
}

// look carries out what does not wait for a reply of the server.
func (s *subject) look(ask request) (text string, waits bool, err error) {
	switch ask.Do {
	case "connect":
		return "", false, s.connect(ask)
	case "close":
		s.close()
	case "lobby":
		s.follow(ask)
	case "list":
		text, err = s.list()
	case "unlist":
		s.unlist()
	case "view":
		text = "none"
		if r := s.room(ask.Room); s.client.Room(ask.Room) != nil {
			text = view(r.View())
		}
	case "iterate":
		next, stop := iter.Pull(s.room(ask.Room).Changes(context.Background()))
		if first, ok := next(); ok {
			s.readers[ask.Name] = &reader{next, stop, &first}
		} else {
			text = "end"
		}
	case "next":
		text = s.readers[ask.Name].read()
	case "state":
		text = s.client.State().String()
		if err := s.client.Err(); err != nil {
			text += " " + code(err)
		}
	case "ended":
		text = ended(s.room(ask.Room))
	default:
		return "", true, nil
	}
	return text, false, err
}

func (s *subject) connect(ask request) error {
	o := ask.Options
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	s.wait = ms(o.Wait)
	cfg := client.Config{
		Addresses: o.Addresses, User: o.User,
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

// ask carries out what waits for the server.
func (s *subject) ask(ctx context.Context, ask request) (err error) {
	id := ask.Room
	switch ask.Do {
	case "join", "watch":
		return s.enter(ctx, ask)
	case "swap":
		_, err = s.client.Swap(ctx, id, ask.User, ask.Other)
		return err
	case "match":
		_, err = s.client.MatchParty(ctx, id, ask.Options.Labels, ask.Options.Settings)
		return err
	case "shuffle":
		_, err = s.client.Shuffle(ctx, id)
		return err
	case "setPrivateOf":
		_, err = s.client.SetPrivateOf(ctx, id, ask.User, ask.Data)
		return err
	case "txn":
		text := fmt.Appendf(nil, `{"id":0,"action":"txn","room":"x","actions":%s}`, ask.Actions)
		txn, bad := protocol.DecodeRequest(text)
		if bad != nil {
			return bad
		}
		_, err = s.client.Txn(ctx, id, txn.Actions)
		return err
	}
	return inRoom(ctx, s.room(id), ask)
}

// inRoom carries out what only a member or a watcher asks for.
func inRoom(ctx context.Context, r *client.Room, ask request) error {
	switch ask.Do {
	case "leave":
		return r.Leave(ctx)
	case "unwatch":
		return r.Unwatch(ctx)
	case "ready":
		return r.Ready(ctx, ask.Value)
	case "set":
		return r.Set(ctx, ask.Data)
	case "setMember":
		return r.SetMember(ctx, ask.Data)
	case "setPrivate":
		return r.SetPrivate(ctx, ask.Data)
	case "timer":
		if ask.In == nil {
			return r.StopTimer(ctx, ask.Name)
		}
		return r.SetTimer(ctx, ask.Name, time.Duration(*ask.In)*time.Millisecond, ask.Then)
	case "update":
		return r.Update(ctx, func(old protocol.JSON) (any, error) {
			var sum int
			err := old.Decode(&sum)
			return sum + ask.By, err
		})
	case "propose":
		return r.Propose(ctx, ask.Data)
	case "say":
		return r.Say(ctx, client.Message{Text: ask.Text})
	case "sayTo":
		return r.SayTo(ctx, []string{ask.User}, client.Message{Text: ask.Text})
	}
	return errors.New("unknown command " + ask.Do)
}

// users returns the list of a room as the scenarios have it.
func (s *subject) users(ctx context.Context, id string) (string, error) {
	reply, err := s.client.Users(ctx, id)
	if err != nil {
		return "", err
	}
	v := client.View{Epoch: reply.Epoch, Version: reply.Version, Users: slices.Clone(reply.Users), Data: reply.Data,
		Host: reply.Host}
	for i := range v.Users {
		v.Users[i].Private = reply.Private[v.Users[i].User]
	}
	if reply.Settings != nil {
		v.Settings = *reply.Settings
	}
	return view(v), nil
}

func (s *subject) enter(ctx context.Context, ask request) (err error) {
	var r *client.Room
	switch o := ask.Options; {
	case ask.Do == "watch" && o.History > 0:
		r, err = s.client.WatchHistory(ctx, ask.Room, o.History)
	case ask.Do == "watch":
		r, err = s.client.Watch(ctx, ask.Room)
	case o.History > 0:
		r, err = s.client.JoinHistory(ctx, ask.Room, o.History)
	case o.Seat != nil:
		r, err = s.client.JoinSeat(ctx, ask.Room, *o.Seat)
	default:
		r, err = s.client.Join(ctx, ask.Room)
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rooms[ask.Room] = r
	return nil
}
