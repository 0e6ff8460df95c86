package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator"
)

// A change that its time ends while the room's lock is taken has written nothing, and may be tried
// again soon.
func TestTimeout_WaitForLock(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false, Options{Timeout: 200 * time.Millisecond})
	w.join("a1", "x")
	redistest.OK(t, w.redis.Set(t.Context(), "LockRoom:a1", "another", time.Minute).Err())
	for _, op := range samples {
		if op.method == http.MethodGet || !strings.Contains(op.path, "a1") {
			continue
		}
		r := w.do(call{method: op.method, path: op.path, body: op.body, operator: true, status: 503, want: []string{`"code":"busy"`, `"retry":true`}})
		if r.Header.Get("Retry-After") == "" {
			t.Errorf("%s %s: without Retry-After", op.method, op.path)
		}
	}
}

// ending waits for the end of a request, and fails with what failed makes of it.
type ending struct {
	Rooms
	Server
	came   chan struct{}
	failed func(ctx context.Context) error
}

func (e *ending) wait(ctx context.Context) error {
	e.came <- struct{}{}
	<-ctx.Done()
	return e.failed(ctx)
}

func (e *ending) Do(ctx context.Context, _ string, _ room.Action) (r room.Result, err error) {
	return r, e.wait(ctx)
}

func (e *ending) Lobby(ctx context.Context) (*coordinator.Lobby, error) { return nil, e.wait(ctx) }

func (e *ending) Journal(ctx context.Context, _, _ string, _ int) ([]coordinator.JournalEntry, error) {
	return nil, e.wait(ctx)
}

func (e *ending) Feed(ctx context.Context, _ string, _ int, _ func(string) bool) (page coordinator.FeedPage, err error) {
	return page, e.wait(ctx)
}

func (e *ending) Read(ctx context.Context, _ string) (s room.Snapshot, err error) {
	return s, e.wait(ctx)
}

func (e *ending) Reserve(ctx context.Context, _ string, _ ...string) (r room.Result, err error) {
	return r, e.wait(ctx)
}

func (e *ending) Match(ctx context.Context, _ coordinator.Wanted, _ ...string) (id string, r room.Result, err error) {
	return id, r, e.wait(ctx)
}

func (e *ending) Move(ctx context.Context, _, _ string, _ ...string) (left, joined room.Result, err error) {
	return left, joined, e.wait(ctx)
}

// Whatever the end of its time makes of a request, the caller hears that it is busy, or that it is
// unknown whether something was written.
func TestTimeout_EveryRequest(t *testing.T) {
	for name, test := range map[string]struct {
		failed func(ctx context.Context) error
		status int
		code   string
	}{
		"its error":          {func(ctx context.Context) error { return fmt.Errorf("gave up: %w", ctx.Err()) }, 503, "busy"},
		"its cause":          {context.Cause, 503, "busy"},
		"an error of others": {func(context.Context) error { return errors.New("x") }, 500, "internal"},
		"unknown": {func(ctx context.Context) error {
			return fmt.Errorf("gave up: %w: %w", room.ErrUnknown, context.Cause(ctx))
		}, 504, "unknown"},
		"a refusal": {func(context.Context) error { return room.ErrFull }, 409, "room_full"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, false, Options{Timeout: time.Millisecond})
			rooms := &ending{w.api.rooms, w.api.server, make(chan struct{}, 100), test.failed}
			w.api.rooms, w.api.server = rooms, rooms
			for _, op := range samples {
				c := call{method: op.method, path: op.path, body: op.body, operator: true, status: test.status, want: []string{`"code":"` + test.code + `"`}}
				if name == "its cause" {
					c.want = append(c.want, "longer than 1ms")
				}
				if r := w.do(c); r.Header.Get("Retry-After") != map[int]string{503: "5"}[test.status] {
					t.Errorf("%s %s: Retry-After %q", op.method, op.path, r.Header.Get("Retry-After"))
				}
			}
		})
	}
}

// A caller who goes away is no failure of the server.
func TestTimeout_CallerGoesAway(t *testing.T) {
	var logged bytes.Buffer
	w := newWorld(t, false, Options{Log: slog.New(slog.NewTextHandler(&logged, nil))})
	rooms := &ending{w.api.rooms, w.api.server, make(chan struct{}, 1), func(ctx context.Context) error { return fmt.Errorf("gave up: %w", context.Cause(ctx)) }}
	w.api.rooms, w.api.server = rooms, rooms
	ctx, cancel := context.WithCancel(t.Context())
	req := httptest.NewRequestWithContext(ctx, http.MethodDelete, "/api/rooms/a1/bans/x", nil)
	answered, answer := make(chan struct{}), httptest.NewRecorder()
	go func() {
		defer close(answered)
		w.api.Operators().ServeHTTP(answer, req)
	}()
	redistest.Receive(t, rooms.came, "the request")
	cancel()
	redistest.Receive(t, answered, "the answer")
	w.api.Close()
	if logged.Len() > 0 || answer.Code != http.StatusServiceUnavailable {
		t.Errorf("%d, and the log says %s", answer.Code, logged.String())
	}
}
