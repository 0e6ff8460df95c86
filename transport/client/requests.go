package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"roomd/transport/protocol"
)

// draft is a request that is about to be sent, or err, which says why it cannot be.
type draft struct {
	req *protocol.Request
	err error
}

// sender sends a request and waits for its reply.
type sender interface {
	request(ctx context.Context, req *protocol.Request) (*protocol.Reply, error)
}

func send(ctx context.Context, s sender, d draft) (*protocol.Reply, error) {
	if d.err != nil {
		return nil, failed(d.req, fmt.Errorf("not sent: %w", d.err))
	}
	return s.request(ctx, d.req)
}

// draftPlain is a request that names a room and nothing else.
func draftPlain(action, room string) draft {
	return draft{req: &protocol.Request{Action: action, Room: room}}
}

// draftJoin asks for a seat, or for any if seat is nil.
func draftJoin(room string, seat *int) draft {
	return draft{req: &protocol.Request{Action: protocol.ActionJoin, Room: room, Seat: seat}}
}

func draftAuth(token string) draft {
	return draft{req: &protocol.Request{Action: protocol.ActionAuth, Token: token}}
}

func draftReady(room string, ready bool) draft {
	return draft{req: &protocol.Request{Action: protocol.ActionReady, Room: room, Value: ready}}
}

func draftSet(room, scope string, data any, only []Condition) draft {
	req := &protocol.Request{Action: protocol.ActionSet, Room: room, Scope: scope}
	err := restrict(req, only)
	if err == nil {
		req.Data, err = encode(data)
	}
	return draft{req, err}
}

// draftSay is a message for all, or, if to is not nil, for those.
func draftSay(room string, to []string, m Message) draft {
	req := &protocol.Request{Action: protocol.ActionSay, Room: room, To: to, Text: m.Text}
	var err error
	if m.Data != nil {
		req.Data, err = encode(m.Data)
	}
	return draft{req, err}
}

// draftKick rounds the ban up to seconds.
func draftKick(room, user, why string, ban time.Duration) draft {
	req := &protocol.Request{Action: protocol.ActionKick, Room: room, User: user, Text: why}
	if ban < 0 || ban > protocol.MaxBan*time.Second {
		return draft{req, fmt.Errorf("ban: must be from 0 to %v, not %v", protocol.MaxBan*time.Second, ban)}
	}
	req.Ban = int((ban + time.Second - 1) / time.Second)
	return draft{req: req}
}

func draftConfigure(room string, s protocol.Settings, only []Condition) draft {
	req := &protocol.Request{Action: protocol.ActionConfigure, Room: room, Settings: &s}
	return draft{req, restrict(req, only)}
}

// encode is json.Marshal without escapes for HTML, which would make data longer.
func encode(data any) (protocol.JSON, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(data); err != nil {
		return "", fmt.Errorf("data: %w", err)
	}
	return protocol.JSON(bytes.TrimSuffix(text.Bytes(), []byte("\n"))), nil
}

// notNil returns a list that the server refuses if it is empty; nil would mean all.
func notNil(users []string) []string {
	if users == nil {
		return []string{}
	}
	return users
}
