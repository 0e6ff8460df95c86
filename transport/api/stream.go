package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

// Limits of requests that watch the lobby or the feed.
const (
	maxWatching  = 1000             // requests at once
	maxWatchers  = 100              // of these, from one address
	maxEvent     = 1000             // rooms in one event
	watchBeat    = 15 * time.Second // the longest silence
	watchTimeout = 10 * time.Second // of a write
)

// watchBy returns an answer, or a refusal. run streams it until the caller leaves, the token expires or the node stops.
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

// write writes text within watchTimeout, or fails.
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
