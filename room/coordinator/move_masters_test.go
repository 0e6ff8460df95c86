package coordinator

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
	"roomd/room"
)

// The master of one room stops, or dies, at a step of a move. Once it is back the answer is true, or
// the caller frees what is reserved.
func TestMove_MasterFails(t *testing.T) {
	t.Parallel() // it mostly waits
	redistest.Thorough(t)
	servers := redistest.StartCluster(t, "--appendonly", "yes", "--appendfsync", "always")
	opts := patient(Options{LockTTL: 500 * time.Millisecond, LockWait: 3 * time.Second, NodeTTL: time.Minute})
	for name, test := range map[string]struct {
		faults func(l *moveLab)
		err    error // nil: any that is true
	}{
		"the target is killed before the reservation": {func(l *moveLab) {
			l.faults.before = map[int32]func() error{1: func() error { l.target.Kill(); return nil }}
		}, room.ErrUnknown},
		"the target is killed as it is made": {func(l *moveLab) {
			l.faults.after = map[int32]func() error{1: func() error { l.target.Kill(); return io.ErrUnexpectedEOF }}
		}, room.ErrUnknown},
		"the source is killed before the users leave": {func(l *moveLab) {
			l.faults.before = map[int32]func() error{2: func() error { l.source.Kill(); return nil }}
		}, room.ErrUnknown},
		"the source is killed when they have left": {func(l *moveLab) {
			l.faults.after = map[int32]func() error{2: func() error { l.source.Kill(); return io.ErrUnexpectedEOF }}
		}, nil}, // unknown, unless the second request was one that was sent again
		"the target stops for a while": {func(l *moveLab) {
			l.faults.before = map[int32]func() error{
				1: func() error { l.target.Pause(); return nil },
				2: func() error { l.target.Resume(); return nil },
			}
		}, nil},
		"the source stops for a while": {func(l *moveLab) {
			l.faults.before = map[int32]func() error{
				2: func() error { l.source.Pause(); return nil },
				3: func() error { l.source.Resume(); return nil },
			}
		}, nil},
		"the source stops for longer than the lock lasts": {func(l *moveLab) {
			l.faults.before = map[int32]func() error{
				2: func() error { l.source.Pause(); return nil },
				4: func() error { l.source.Resume(); return nil },
			}
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			l := newMoveLab(t, servers, opts, new(moveFaults))
			for _, id := range []string{l.from, l.to} { // the client knows who has what
				if _, err := l.c.Read(soon(t), id); err != nil {
					t.Fatal(err)
				}
			}
			test.faults(l)
			stop := l.observe(t, "a", "b")
			err := l.move(t, "a", "b")
			l.source.Resume()
			l.target.Resume()
			for _, server := range []*redistest.Server{l.source, l.target} {
				if !isUp(server) {
					server.Restart()
				}
			}
			servers.WaitReady()
			if test.err != nil && !errors.Is(err, test.err) {
				t.Errorf("move: %v", err)
			}
			var got string
			awaitUntil(t, longPatience, func() string {
				var reading error
				if got, reading = l.users(t.Context()); reading != nil {
					return reading.Error()
				}
				return ""
			})
			switch {
			case err == nil && got != "; (a) (b)", err != nil && !errors.Is(err, room.ErrUnknown) && got != "a b; ":
				t.Errorf("the move returns %v, and the rooms are %s", err, got)
			case errors.Is(err, room.ErrUnknown) && strings.HasPrefix(got, "a b; "):
				for _, user := range []string{"a", "b"} {
					awaitUntil(t, longPatience, func() string {
						if _, err := l.c.Do(t.Context(), l.to, room.Leave{User: user, Session: "r"}); err != nil && !errors.Is(err, room.ErrNotMember) {
							return err.Error()
						}
						return ""
					})
				}
				l.expect(t, "a b", "")
			case errors.Is(err, room.ErrUnknown) && got != "; (a) (b)":
				t.Errorf("the rooms are %s", got)
			}
			stop()
		})
	}
}

func isUp(server *redistest.Server) bool {
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), DialTimeout: time.Second, MaxRetries: -1})
	defer client.Close()
	return client.Ping(context.Background()).Err() == nil
}
