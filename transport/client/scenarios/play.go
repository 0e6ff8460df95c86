package scenarios

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
)

// player plays the steps of one scenario.
type player struct {
	server  *server
	subject Subject
	calls   sync.WaitGroup
	answers map[string]chan string // of calls, by label
	peer    *peer                  // the latest connection, nil before the first
	address int                    // of that connection
	version int                    // of room 42 after the latest flood
}

func (p *player) play(ctx context.Context, s step) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	switch s.verb {
	case "call", "gives", "read", "next", "end":
		return p.program(ctx, s)
	case "see", "state", "ended":
		return p.observe(ctx, s)
	case "accept", "refuse":
		return p.decide(ctx, s)
	case "addresses":
		return nil
	}
	if p.peer == nil {
		return errors.New("nobody is connected")
	}
	return p.converse(ctx, s)
}

// program does what the client's program does.
func (p *player) program(ctx context.Context, s step) error {
	switch s.verb {
	case "call":
		return p.call(s)
	case "gives":
		answer, ok := p.answers[s.label]
		if !ok {
			return errors.New("nothing was called")
		}
		delete(p.answers, s.label)
		got, err := receive(ctx, answer)
		return differs(s.text, got, err)
	case "read":
		room, name, _ := strings.Cut(s.text, " as ")
		return differs("ok", p.subject.Do(ctx, "iterate", room, name), nil)
	case "next":
		name, want, _ := strings.Cut(s.text, " ")
		return differs(want, p.subject.Do(ctx, "next", name), ctx.Err())
	default:
		return differs("end", p.subject.Do(ctx, "next", s.text), ctx.Err())
	}
}

func (p *player) call(s step) error {
	args := words(s.text)
	if args[0] == "connect" {
		options, err := withDefaults(args[1])
		if err != nil {
			return err
		}
		args[1] = options
	}
	answer := make(chan string, 1)
	p.answers[s.label] = answer
	p.calls.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		answer <- p.subject.Do(ctx, args[0], args[1:]...)
	})
	return nil
}

// observe looks until the program sees what it should.
func (p *player) observe(ctx context.Context, s step) error {
	command, match := s.verb, same
	var args []string
	want := s.text
	if s.verb != "state" {
		room, rest, _ := strings.Cut(s.text, " ")
		args, want = []string{room}, rest
	}
	if s.verb == "see" {
		command, match = "view", shows
	}
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		got := p.subject.Do(ctx, command, args...)
		if match(want, got) {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("got %s", got)
		}
	}
}

// decide lets a client in, or not.
func (p *player) decide(ctx context.Context, s step) error {
	a, err := receive(ctx, p.server.arrivals)
	if err != nil {
		return fmt.Errorf("no client connects: %w", err)
	}
	if s.verb == "refuse" {
		status, code, _ := strings.Cut(s.text, " ")
		n, err := strconv.Atoi(status)
		a.decide <- &refusal{n, code}
		return err
	}
	if p.peer != nil && strings.HasSuffix(s.text, "other") && a.address == p.address {
		return errors.New("the client comes to the same address")
	}
	if user, ok := option(s.text, "user"); ok && a.request.URL.Query().Get("user") != user {
		return fmt.Errorf("the client is %q", a.request.URL.Query().Get("user"))
	}
	if token, ok := option(s.text, "token"); ok && token != "any" && tokenOf(a) != token {
		return fmt.Errorf("the client's token is %q", tokenOf(a))
	}
	a.decide <- nil
	p.address = a.address
	p.peer, err = receive(ctx, a.peer)
	return err
}

// tokenOf returns the token of a handshake, which comes in one of two ways.
func tokenOf(a *arrival) string {
	if token, ok := strings.CutPrefix(a.request.Header.Get("Authorization"), "Bearer "); ok {
		return token
	}
	_, token, _ := strings.Cut(a.request.Header.Get("Sec-WebSocket-Protocol"), "roomd.token.")
	return token
}

// tokenFor returns a token as far as a client reads it: what it says, and no valid signature.
func tokenFor(expires time.Time) string {
	part := base64.RawURLEncoding.EncodeToString
	return part([]byte(`{"alg":"HS256"}`)) + "." + part(fmt.Appendf(nil, `{"sub":"ada","exp":%d}`, expires.Unix())) + "." + part([]byte("signature"))
}
