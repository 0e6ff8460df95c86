package scenarios

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// player plays the steps of one scenario.
type player struct {
	life      context.Context // of the scenario
	program   *program
	client    string   // its name in the program
	addresses []string // where it connects
	server    *server  // nil with real nodes
	stage     *stage   // the real nodes, otherwise nil
	calls     sync.WaitGroup
	answers   map[string]chan string // of calls, by label
	peer      *peer                  // the latest connection, nil before the first and with real nodes
	arrived   *arrival               // the latest handshake, nil before the first
	version   int                    // of room 42 after the latest flood
	lobby     *arrival               // the latest answer about the lobby, nil before the first
}

func (p *player) play(ctx context.Context, s step) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return verbs[s.verb].play(p, ctx, s)
}

// close ends the servers.
func (p *player) close() {
	if p.server != nil {
		p.server.close()
	}
	if p.stage != nil {
		p.stage.close()
	}
}

// do lets the client carry out a command, and returns the answer, with names for the epochs of real nodes.
func (p *player) do(ctx context.Context, command string, args ...string) string {
	answer := p.program.do(ctx, p.client, command, args...)
	if p.stage != nil {
		answer = p.stage.rename(answer)
	}
	return answer
}

// call starts a command of the program. The step gives waits for the answer.
func (p *player) call(_ context.Context, s step) error {
	args := split(s.text)
	if args[0] == "connect" {
		options, err := withDefaults(args[1], p.addresses)
		if err != nil {
			return err
		}
		args[1] = options
	}
	answer := make(chan string, 1)
	p.answers[s.label] = answer
	p.calls.Go(func() {
		ctx, cancel := context.WithTimeout(p.life, patience)
		defer cancel()
		answer <- p.do(ctx, args[0], args[1:]...)
	})
	return nil
}

func (p *player) gives(ctx context.Context, s step) error {
	answer, ok := p.answers[s.label]
	if !ok {
		return errors.New("nothing was called")
	}
	delete(p.answers, s.label)
	got, err := receive(ctx, answer)
	return differs(s.text, got, err)
}

func (p *player) begin(ctx context.Context, s step) error {
	room, name, _ := strings.Cut(s.text, " as ")
	return differs("ok", p.do(ctx, "iterate", room, name), nil)
}

func (p *player) next(ctx context.Context, s step) error {
	name, want, _ := strings.Cut(s.text, " ")
	if s.verb == "end" {
		want = "end"
	}
	return differs(want, p.do(ctx, "next", name), ctx.Err())
}

// observe asks the program until its answer is as the step says.
func (p *player) observe(ctx context.Context, s step) error {
	command, match, want := s.verb, same, s.text
	var args []string
	if s.verb != "state" {
		room, rest, _ := strings.Cut(s.text, " ")
		args, want = []string{room}, rest
	}
	if s.verb == "see" {
		command, match = "view", shows
	}
	return until(ctx, func() (string, bool) {
		got := p.do(ctx, command, args...)
		return got, match(want, got)
	})
}

// until calls ask until what it got is right. The error says what it got before ctx ended.
func until(ctx context.Context, ask func() (got string, right bool)) error {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for last := ""; ; {
		got, right := ask()
		if right {
			return nil
		}
		if last == "" || ctx.Err() == nil {
			last = got // not only that the time is over
		}
		if _, err := receive(ctx, tick.C); err != nil {
			return fmt.Errorf("got %s", last)
		}
	}
}

// decide waits for a client's handshake, and accepts or refuses it.
func (p *player) decide(ctx context.Context, s step) (err error) {
	if p.stage != nil {
		return p.stage.arrive(ctx, s)
	}
	if p.arrived, err = arrive(ctx, s, p.server.arrivals, p.arrived); err != nil {
		return err
	}
	if s.verb == "refuse" {
		return p.server.refuse(p.arrived, s.text)
	}
	p.peer, err = p.server.accept(p.life, p.arrived)
	return err
}

// lobbyAsked waits for a request for the lobby, and refuses it if the verb is denies.
func (p *player) lobbyAsked(ctx context.Context, s step) (err error) {
	if s.verb == "asks" && !strings.Contains(s.text, "query=") {
		s.text += " query=watch="
	}
	if p.lobby, err = arrive(ctx, s, p.server.watchers, p.lobby); err == nil && s.verb == "denies" {
		err = p.server.refuse(p.lobby, s.text)
	}
	return err
}

// arrive waits for a client, and checks it by the words of the step. before is the client that came before, or nil.
func arrive(ctx context.Context, s step, from <-chan *arrival, before *arrival) (*arrival, error) {
	a, err := receive(ctx, from)
	if err != nil {
		return nil, fmt.Errorf("no client comes: %w", err)
	}
	for word := range strings.FieldsSeq(s.text) {
		name, want, _ := strings.Cut(word, "=")
		query := a.request.URL.Query()
		switch {
		case name == "other" && before != nil && a.address == before.address:
			err = errors.New("the client comes to the same address")
		case name == "user" && query.Get("user") != want:
			err = fmt.Errorf("the client is %q", query.Get("user"))
		case name == "token" && want != "any" && a.token() != want:
			err = fmt.Errorf("the client's token is %q", a.token())
		case name == "query" && query.Encode() != want:
			err = fmt.Errorf("got %s", query.Encode())
		}
	}
	return a, err
}

// tell sends an event in the latest answer about the lobby, or ends that answer.
func (p *player) tell(_ context.Context, s step) error {
	if p.lobby == nil {
		return errors.New("nobody has asked")
	}
	if s.verb == "ends" {
		close(p.lobby.decided)
		return nil
	}
	event, data, _ := strings.Cut(s.text, " ")
	return p.lobby.tell(event, data)
}

// list reads lists of rooms until one is as the step says.
func (p *player) list(ctx context.Context, s step) error {
	for {
		got := p.do(ctx, "list")
		if same(s.text, got) {
			return nil
		}
		if ctx.Err() != nil || decode(got) == nil {
			return fmt.Errorf("got %s", got)
		}
	}
}

// converse runs a step on the latest connection.
func (p *player) converse(ctx context.Context, s step) error {
	if p.stage != nil {
		return p.disturb(ctx, s)
	}
	if p.peer == nil {
		return errors.New("nobody is connected")
	}
	n, _ := strconv.Atoi(s.text)
	switch s.verb {
	case ">":
		got, err := p.peer.request(ctx)
		return differs(s.text, got, err)
	case "<":
		if strings.HasPrefix(s.text, `{"event"`) {
			return p.peer.send(s.text)
		}
		return p.peer.reply(s.text)
	case "hears":
		_, err := receive(ctx, p.peer.pings)
		return err
	case "silence":
		p.peer.silent.Store(true)
	case "cut":
		return p.peer.conn.NetConn().Close()
	case "close":
		frame := websocket.FormatCloseMessage(n, "as the scenario says")
		return p.peer.conn.WriteControl(websocket.CloseMessage, frame, deadline())
	case "closed":
		_, err := receive(ctx, p.peer.closed)
		return differs(s.text, strconv.Itoa(p.peer.code), err)
	case "flood":
		for range n {
			p.version++
			frame := fmt.Sprintf(`{"event":"changes","room":"42","epoch":"e","version":%d,"from":%d,`+
				`"changes":[{"type":"data","data":%[1]d}]}`, p.version, p.version-1)
			if err := p.peer.send(frame); err != nil {
				return err
			}
		}
	}
	return nil
}

// finish closes the client. It fails if that or its connection's end fails, if a call has no gives, or if the client
// has sent more than the scenario has.
func (p *player) finish(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if got := p.do(ctx, "close"); got != "ok" {
		return fmt.Errorf("close at the end must be answered; got %s", got)
	}
	if len(p.answers) > 0 {
		return fmt.Errorf("calls without gives: %d", len(p.answers))
	}
	if p.peer == nil {
		return nil
	}
	if _, err := receive(ctx, p.peer.closed); err != nil {
		return errors.New("the client is closed, and its connection is open")
	}
	select {
	case data := <-p.peer.frames:
		return fmt.Errorf("the client has also sent %s", data)
	default:
		return nil
	}
}
