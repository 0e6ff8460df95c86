package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"roomd/room/coordinator"
)

// Limits of requests that watch the lobby or the feed.
const (
	maxWatching  = 1000             // requests at once
	maxWatchers  = 100              // of these, from one address
	maxEvent     = 1000             // rooms in one event
	watchBeat    = 15 * time.Second // the longest silence
	watchTimeout = 10 * time.Second // of a write
)

type lobbyEvent struct {
	Rooms []listed `json:"rooms"`
	Gone  []string `json:"gone,omitzero"`
	More  bool     `json:"more,omitzero"` // the list is complete only with the next event
}

// watchLobby answers with the rooms of a filter, then with their changes, until watchBy ends it.
func (q *request) watchLobby(f *filter) (*answer, error) {
	if f.Sort != "" || f.After != "" || q.URL.Query().Has("limit") {
		return nil, badField("watch", "does not go with sort, after or limit")
	}
	return q.watchBy(func(ctx context.Context, events *eventStream) {
		s := &lobbyStream{events, q, f}
		for before, err := s.next(ctx, nil); err == nil; before, err = s.next(ctx, before) {
		}
	})
}

// watchBy answers with the output of run, until that returns, the caller leaves, the token expires or the node stops.
func (q *request) watchBy(run func(ctx context.Context, s *eventStream)) (*answer, error) {
	leave, refusal := q.api.watching.enter(q.network)
	if refusal != nil {
		return nil, refusal
	}
	return &answer{status: http.StatusOK, kind: "text/event-stream",
		stream: func(ctx context.Context, w http.ResponseWriter) {
			defer leave()
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			defer context.AfterFunc(q.api.open, cancel)()
			if !q.token.Expires.IsZero() {
				defer time.AfterFunc(time.Until(q.token.Expires), cancel).Stop()
			}
			s := &eventStream{w, http.NewResponseController(w)}
			_ = s.control.SetReadDeadline(time.Time{}) // no more input is expected
			run(ctx, s)
		}}, nil
}

// eventStream writes server-sent events to one caller.
type eventStream struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

type lobbyStream struct {
	events *eventStream
	q      *request
	f      *filter
}

// next waits for the next list, and writes the differences.
func (s *lobbyStream) next(ctx context.Context, before *coordinator.Lobby) (*coordinator.Lobby, error) {
	patience, cancel := context.WithTimeout(ctx, watchBeat)
	defer cancel()
	now, ids, err := s.q.api.rooms.NextLobby(patience, before)
	switch {
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return before, s.events.write(":\n\n")
	case err != nil:
		return nil, err
	case before == nil:
		return now, s.whole(now)
	}
	return now, s.changes(before, now, ids)
}

// shows reports whether the caller sees a room; nil is no room.
func (s *lobbyStream) shows(r *coordinator.Listed) bool {
	return r != nil && s.f.has(r) && s.q.lists(r.ID)
}

func (s *lobbyStream) whole(now *coordinator.Lobby) error {
	e := lobbyEvent{Rooms: []listed{}}
	for _, r := range now.Rooms {
		if s.shows(r) {
			e.Rooms = append(e.Rooms, newListed(r))
		}
	}
	return s.send("rooms", e)
}

func (s *lobbyStream) changes(before, now *coordinator.Lobby, ids []string) error {
	e := lobbyEvent{Rooms: []listed{}}
	for _, id := range ids {
		was, is := before.Find(id), now.Find(id)
		switch shown := s.shows(was); {
		case s.shows(is) && (!shown || differ(*was, *is)):
			e.Rooms = append(e.Rooms, newListed(is))
		case shown && !s.shows(is):
			e.Gone = append(e.Gone, id)
		}
	}
	if len(e.Rooms) == 0 && len(e.Gone) == 0 {
		return nil
	}
	return s.send("changes", e)
}

// differ reports whether the lobby shows a room differently than before.
func differ(was, is coordinator.Listed) bool {
	was.Epoch, was.Version = is.Epoch, is.Version
	return was != is
}

// send writes an event, in parts if it has many rooms.
func (s *lobbyStream) send(name string, e lobbyEvent) error {
	parts := slices.Collect(slices.Chunk(e.Rooms, maxEvent))
	if len(parts) == 0 {
		parts = [][]listed{{}}
	}
	for i, part := range parts {
		data, err := json.Marshal(lobbyEvent{part, e.Gone, i < len(parts)-1}, json.Deterministic(true))
		if err == nil {
			err = s.events.write("event: " + name + "\ndata: " + string(data) + "\n\n")
		}
		if err != nil {
			return err
		}
		name, e.Gone = "changes", nil
	}
	return nil
}

// write bounds the wait for a caller that does not read.
func (s *eventStream) write(text string) error {
	if err := s.control.SetWriteDeadline(time.Now().Add(watchTimeout)); err != nil &&
		!errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := io.WriteString(s.w, text); err != nil {
		return err
	}
	return s.control.Flush()
}
