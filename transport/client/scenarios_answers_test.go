package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"roomd/room"
	"roomd/transport/client"
	"roomd/transport/protocol"
)

// read returns the next change of an iteration as the scenarios have it.
func (r *reader) read() string {
	c, ok := client.Change{}, true
	if r.first != nil {
		c, r.first = *r.first, nil
	} else if c, ok = r.next(); !ok {
		return "end"
	}
	event := fields(&protocol.Event{Event: protocol.EventChanges, Changes: []protocol.Change{c.Change}})
	change := event["changes"].([]any)[0].(map[string]any)
	change["epoch"], change["version"] = c.Epoch, c.Version
	return text(change)
}

// view returns a room as the scenarios have it.
func view(v client.View) string {
	e := &protocol.Event{Event: protocol.EventSnapshot, Epoch: v.Epoch, Version: v.Version, State: protocol.State{Users: v.Users, Data: v.Data, Host: v.Host}}
	if v.Settings != (room.Settings{}) {
		e.Settings = &v.Settings
	}
	for _, u := range v.Users {
		if u.Private != "" && e.Private == nil {
			e.Private = map[string]protocol.JSON{}
		}
		if u.Private != "" {
			e.Private[u.User] = u.Private
		}
	}
	shown := fields(e)
	if e.Settings == nil {
		shown["settings"] = map[string]any{}
	}
	for _, name := range []string{"event", "room", "count"} {
		delete(shown, name)
	}
	if len(v.Timers) > 0 {
		shown["timers"] = slices.Sorted(maps.Keys(v.Timers))
	}
	if v.Member {
		shown["seat"] = v.Seat
	}
	return text(shown)
}

// listing returns a list of rooms as the scenarios have it.
func listing(l client.Lobby) string {
	rooms := []string{}
	for _, r := range l.Rooms {
		rooms = append(rooms, fmt.Sprintf("%s %d/%d", r.Room, r.Count, r.Capacity))
	}
	shown := map[string]any{"rooms": rooms}
	if l.Stale {
		shown["stale"] = true
	}
	return text(shown)
}

// fields returns an event as the protocol writes it.
func fields(e *protocol.Event) (fields map[string]any) {
	if err := json.Unmarshal(protocol.AppendEvent(nil, e), &fields); err != nil {
		panic(err)
	}
	return fields
}

func text(fields map[string]any) string {
	data, err := json.Marshal(fields)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// code returns the code by which the scenarios know an error.
func code(err error) string {
	var lost *client.LostError
	var refused *protocol.Error
	var closed *client.CloseError
	switch {
	case errors.Is(err, client.ErrUnauthorized):
		return protocol.CodeUnauthorized
	case errors.As(err, &lost):
		return "lost"
	case errors.As(err, &refused):
		return refused.Code
	case errors.Is(err, client.ErrLeft):
		return "left"
	case errors.Is(err, client.ErrUnwatched):
		return "unwatched"
	case errors.Is(err, context.DeadlineExceeded) && strings.Contains(err.Error(), "not sent"):
		return "timeout"
	case errors.Is(err, context.DeadlineExceeded):
		return protocol.CodeUnknown
	case !errors.As(err, &closed):
		return fmt.Sprintf("%T %v", err, err)
	}
	switch closed.Code {
	case 1000:
		return "client_closed"
	case protocol.CloseReplaced:
		return "replaced"
	}
	return "disconnected"
}

func ended(r *client.Room) string {
	var lost *client.LostError
	switch err := r.Err(); {
	case err == nil:
		return "no"
	case errors.As(err, &lost):
		return "lost " + lost.Reason
	default:
		return code(err)
	}
}
