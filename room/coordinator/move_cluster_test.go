package coordinator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/room"
)

// A node dies at each step of a move. Nobody is without a seat, and the seats that it has reserved
// are free when its lease and the grace are over.
func TestMove_MoverDies(t *testing.T) {
	t.Parallel() // it mostly waits
	redistest.Thorough(t)
	servers := redistest.StartCluster(t)
	for name, test := range map[string]struct {
		faults             func(*moveFaults)
		at                 string // both rooms, when it is dead
		comes              string // a user whose session comes to the room to then
		fromAfter, toAfter string
	}{
		"before the reservation": {
			func(f *moveFaults) { f.before = map[int32]func() error{1: f.cutOff} }, "a b; ", "", "a b", "",
		},
		"as it is made": {
			func(f *moveFaults) { f.after = map[int32]func() error{1: f.cutOff} }, "a b; (a)", "", "a b", "",
		},
		"before the users leave": {
			func(f *moveFaults) { f.before = map[int32]func() error{2: f.cutOff} }, "a b; (a)", "", "a b", "",
		},
		"when they have left": {
			func(f *moveFaults) { f.after = map[int32]func() error{2: f.cutOff} }, "b; (a)", "a", "b", "a",
		},
	} {
		t.Run(name, func(t *testing.T) {
			faults := new(moveFaults)
			l := newMoveLab(t, servers, mortal(), faults)
			redistest.OK(t, l.c.Start(soon(t)))
			stop := l.observe(t, "a", "b")
			test.faults(faults)
			faults.dies(l.c)
			err := l.move(t, "a")
			redistest.ErrorIf(t, err == nil, "a dead node has moved a user")
			if got, err := l.users(soon(t)); err != nil || got != test.at {
				t.Errorf("when it is dead the rooms are %s, %v", got, err)
			}
			if test.comes != "" {
				mustDo(t, l.other, l.to, room.Join{User: test.comes, Session: "s"})
			}
			l.expect(t, test.fromAfter, test.toAfter)
			awaitUntil(t, patience, func() string { // all of it is over
				client := l.other.store.Client
				if n := client.Exists(t.Context(), unprefixed.Lease(l.c.Node()), unprefixed.NodeRooms(l.c.Node())).Val(); n > 0 {
					return "the dead node is still known"
				}
				return ""
			})
			l.expect(t, test.fromAfter, test.toAfter)
			stop()
		})
	}
}

// A seat that a move has reserved is kept for days, if the settings say so, only if the users have left the room before.
func TestMove_GraceOfHalf(t *testing.T) {
	redistest.Thorough(t)
	servers := redistest.StartCluster(t)
	for name, whole := range map[string]bool{"the mover dies between the halves": false, "the move is whole": true} {
		t.Run(name, func(t *testing.T) {
			faults := new(moveFaults)
			l := newMoveLab(t, servers, mortal(), faults)
			mustDo(t, l.other, l.to, room.Configure{Settings: room.Settings{Grace: room.NewGrace(3 * graceDay.Milliseconds())}})
			if !whole {
				faults.before = map[int32]func() error{2: faults.cutOff}
				faults.dies(l.c)
			}
			err := l.move(t, "a")
			redistest.ErrorIf(t, whole != (err == nil), "the move: %v", err)
			now, err := l.other.store.Load(t.Context(), l.to)
			redistest.OK(t, err)
			a, _ := now.Member("a")
			left := time.UnixMilli(room.Deadline(a.Session)).Sub(time.UnixMilli(l.other.timers.Now()))
			redistest.ErrorIf(t, left <= 0 || whole != (left > 2*graceDay), "the seat is kept for %v", left)
		})
	}
}

// The users cannot leave after all: their seats are released, and the error says why.
func TestMove_SeatGivenBack(t *testing.T) {
	redistest.Thorough(t)
	t.Parallel() // it mostly waits
	servers := redistest.StartCluster(t)
	for name, test := range map[string]struct {
		between  func(l *moveLab) error // before the users leave
		after    func(l *moveLab) error // when they have left
		err      error
		from, to string
	}{
		"a user has left": {func(l *moveLab) error {
			ctx := context.Background()
			l.other.store.Client.Del(ctx, "LockRoom:{"+l.from+"}") // what the TTL does
			_, err := l.other.Do(ctx, l.from, room.Leave{User: "b", Session: "s"})
			return err
		}, nil, room.ErrNotMember, "a", ""},
		"the lock is lost": {func(l *moveLab) error {
			return l.other.store.Client.Del(context.Background(), "LockRoom:{"+l.from+"}").Err()
		}, nil, nil, "", "(a) (b)"},
		"the request and the lock are lost": {func(l *moveLab) error {
			l.other.store.Client.Del(context.Background(), "LockRoom:{"+l.from+"}")
			return io.ErrUnexpectedEOF
		}, nil, nil, "", "(a) (b)"},
		"a user comes by itself": {func(l *moveLab) error {
			ctx := context.Background()
			for _, id := range []string{l.from, l.to} {
				l.other.store.Client.Del(ctx, "LockRoom:{"+id+"}")
			}
			_, err := l.other.Do(ctx, l.to, room.Join{User: "a", Session: "own"})
			if err == nil {
				_, err = l.other.Do(ctx, l.from, room.Leave{User: "a", Session: "s"})
			}
			return err
		}, nil, room.ErrNotMember, "b", "a"},
		"the reply and the lock are lost": {nil, func(l *moveLab) error {
			l.other.store.Client.Del(context.Background(), "LockRoom:{"+l.from+"}")
			return io.ErrUnexpectedEOF
		}, nil, "", "(a) (b)"},
		"the reply and every trace are lost": {nil, func(l *moveLab) error {
			ctx := context.Background()
			l.other.store.Client.Del(ctx, "LockRoom:{"+l.from+"}")
			l.other.store.Client.HDel(ctx, "Room:{"+l.from+"}:Meta", "moved")
			return io.ErrUnexpectedEOF
		}, nil, "", "(a) (b)"},
		"the node is closed": {func(l *moveLab) error {
			l.c.workers.Refuse()
			l.other.store.Client.Del(context.Background(), "LockRoom:{"+l.from+"}")
			_, err := l.other.Do(context.Background(), l.from, room.Leave{User: "b", Session: "s"})
			return err
		}, nil, room.ErrNotMember, "a", ""},
	} {
		t.Run(name, func(t *testing.T) {
			faults := new(moveFaults)
			l := newMoveLab(t, servers, patient(Options{}), faults)
			if test.between != nil {
				faults.before = map[int32]func() error{2: func() error { return test.between(l) }}
			} else {
				faults.after = map[int32]func() error{2: func() error { return test.after(l) }}
			}
			stop := l.observe(t, "a")
			if err := l.move(t, "a", "b"); !errors.Is(err, test.err) || errors.Is(err, room.ErrUnknown) {
				t.Errorf("move: %v", err)
			}
			stop()
			got, err := l.users(soon(t))
			want := test.from + "; " + test.to
			redistest.ErrorIf(t, err != nil || got != want, "the rooms are %s, not %s (%v)", got, want, err)
		})
	}
}

// Users are moved to and fro on a Cluster by several nodes at once. Nobody is ever without a seat, and
// in the end each has one.
func TestMove_AtOnceOnACluster(t *testing.T) {
	redistest.Thorough(t)
	t.Parallel() // it mostly waits
	servers := redistest.StartCluster(t)
	l := newMoveLab(t, servers, Options{}, new(moveFaults))
	stop := l.observe(t, "a", "b")
	var play sync.WaitGroup
	for n, c := range []*Coordinator{l.c, l.other, newCoordinator(t, servers.Client(), Options{})} {
		play.Go(func() {
			r := rand.New(rand.NewPCG(2, uint64(n)))
			for i := range 60 {
				from, to := l.from, l.to
				if r.IntN(2) == 0 {
					from, to = to, from
				}
				users := []string{"a", "b"}[r.IntN(2):]
				_, _, err := c.Move(soon(t), from, to, fmt.Sprint("r", n, "-", i), users...)
				redistest.ErrorIf(t, err != nil && !errors.Is(err, room.ErrNotMember), "move: %v", err)
			}
		})
	}
	play.Wait()
	stop()
	got, err := l.users(soon(t))
	redistest.ErrorIf(t, err != nil || strings.Count(got, "a") != 1 || strings.Count(got, "b") != 1,
		"the rooms are %s, %v", got, err)
}
