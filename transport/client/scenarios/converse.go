package scenarios

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// converse does a step of the present connection.
func (p *player) converse(ctx context.Context, s step) error {
	switch s.verb {
	case ">":
		data, err := receive(ctx, p.peer.frames)
		if err != nil {
			return fmt.Errorf("no frame comes: %w", err)
		}
		got, id, err := takeID(data)
		p.peer.waiting = append(p.peer.waiting, id)
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
		p.peer.silence()
		return nil
	case "cut":
		return p.peer.conn.NetConn().Close()
	default:
		return p.number(ctx, s)
	}
}

// number does a step whose argument is a number.
func (p *player) number(ctx context.Context, s step) error {
	n, err := strconv.Atoi(s.text)
	if err != nil {
		return err
	}
	switch s.verb {
	case "close":
		return p.peer.close(n)
	case "flood":
		p.version += n
		return p.peer.flood(p.version-n, n)
	default: // closed
		select {
		case <-p.peer.closed:
		case <-ctx.Done():
			return ctx.Err()
		}
		p.peer.mu.Lock()
		defer p.peer.mu.Unlock()
		return differs(s.text, strconv.Itoa(p.peer.code), nil)
	}
}

// finish closes the client, and looks whether it has sent what the scenario does not have.
func (p *player) finish(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if got := p.subject.Do(ctx, "close"); got != "ok" {
		return fmt.Errorf("close at the end: %s", got)
	}
	if len(p.answers) > 0 {
		return fmt.Errorf("calls without gives: %d", len(p.answers))
	}
	if p.peer == nil {
		return nil
	}
	select {
	case <-p.peer.closed:
	case <-ctx.Done():
		return errors.New("the client is closed, and its connection is open")
	}
	select {
	case data := <-p.peer.frames:
		return fmt.Errorf("the client has also sent %s", data)
	default:
		return nil
	}
}

func differs(want, got string, err error) error {
	if err == nil && !same(want, got) {
		err = fmt.Errorf("got %s", got)
	}
	return err
}

func receive[T any](ctx context.Context, from <-chan T) (value T, err error) {
	select {
	case value = <-from:
	case <-ctx.Done():
		err = ctx.Err()
	}
	return value, err
}
