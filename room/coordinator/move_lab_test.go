package coordinator

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator/internal/store"
)

// moveLab is a move on a Cluster between two rooms on different masters.
type moveLab struct {
	servers  *redistest.Cluster
	from, to string
	c, other *Coordinator
	faults   *moveFaults

	source, target *redistest.Server // the masters of the rooms
}

// moveFaults are what happens to a node at the scripts of its moves: a function for the nth one
// sent, and then, if cut, to every request.
type moveFaults struct {
	before, after map[int32]func() error
	sent          atomic.Int32
	cut           atomic.Bool
}

func (f *moveFaults) hook() redistest.Hook {
	at := func(when func() map[int32]func() error, cmd redis.Cmder) error {
		if f.cut.Load() {
			return io.ErrUnexpectedEOF
		}
		if !isMove(cmd) {
			return nil
		}
		if do := when()[f.sent.Load()]; do != nil {
			return do()
		}
		return nil
	}
	return redistest.Hook{
		Before: func(_ context.Context, cmd redis.Cmder) error {
			if isMove(cmd) {
				f.sent.Add(1)
			}
			return at(func() map[int32]func() error { return f.before }, cmd)
		},
		After: func(_ context.Context, cmd redis.Cmder) error {
			return at(func() map[int32]func() error { return f.after }, cmd)
		},
	}
}

func isMove(cmd redis.Cmder) bool { return isScript(cmd, store.MoveScript) }

// cutOff makes the node's client fail from now on.
func (f *moveFaults) cutOff() error {
	f.cut.Store(true)
	return io.ErrUnexpectedEOF
}

var labRooms atomic.Int32 // so that every lab has rooms of its own

// newMoveLab has a and b join the room from, by another node than the one that is to move them.
func newMoveLab(t *testing.T, servers *redistest.Cluster, opts Options, faults *moveFaults) *moveLab {
	t.Helper()
	l := &moveLab{servers: servers, faults: faults, source: servers.Node(0), target: servers.Node(1)}
	_, of := roomsOf(t, servers, 10000*int(labRooms.Add(1)), 1)
	l.from, l.to = of[l.source][0], of[l.target][0]
	client := servers.Client()
	if err := client.ForEachMaster(t.Context(), func(ctx context.Context, rdb *redis.Client) error {
		return store.New(rdb, store.Options{}).Servers.Preload(ctx, store.MoveScript)
	}); err != nil {
		t.Fatal(err)
	}
	client.AddHook(faults.hook())
	l.c = newCoordinator(t, client, opts)
	// The node's hash slot is on the third master, whatever becomes of the rooms'.
	for servers.Owner(tagOf(l.c)) != servers.Node(2) {
		l.c = newCoordinator(t, client, opts)
	}
	l.other = newCoordinator(t, servers.Client(), opts)
	for _, user := range []string{"a", "b"} {
		mustDo(t, l.other, l.from, room.Join{User: user, Session: "s"})
	}
	return l
}

func (l *moveLab) move(t *testing.T, users ...string) error {
	_, _, err := l.c.Move(soon(t), l.from, l.to, "r", users...)
	return err
}

// expect waits for both rooms.
func (l *moveLab) expect(t *testing.T, from, to string) {
	t.Helper()
	awaitUntil(t, patience, func() string {
		got, err := l.users(t.Context())
		if want := from + "; " + to; err != nil || got != want {
			return fmt.Sprintf("the rooms are %s, not %s (%v)", got, want, err)
		}
		return ""
	})
}

func (l *moveLab) users(ctx context.Context) (string, error) {
	var both []string
	for _, id := range []string{l.from, l.to} {
		snapshot, err := l.other.Read(ctx, id)
		if err != nil {
			return "", err
		}
		var names []string
		for _, o := range snapshot.Users() {
			name := o.User
			if o.Away {
				name = "(" + name + ")"
			}
			names = append(names, name)
		}
		both = append(both, strings.Join(names, " "))
	}
	return strings.Join(both, "; "), nil
}

// observe looks at both rooms until stop is called, and fails the test if a user has a seat in
// neither. Only what was read while the room from stayed at its version counts.
func (l *moveLab) observe(t *testing.T, users ...string) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	observer := newCoordinator(t, l.servers.Client(), Options{})
	var looking sync.WaitGroup
	looked := make(chan struct{})
	look := sync.OnceFunc(func() { close(looked) })
	looking.Go(func() {
		for ctx.Err() == nil {
			before, err := observer.store.Load(ctx, l.from)
			if err != nil {
				continue
			}
			to, err := observer.store.Load(ctx, l.to)
			if err != nil {
				continue
			}
			after, err := observer.store.Load(ctx, l.from)
			if err != nil || before.Position != after.Position {
				continue
			}
			look()
			for _, user := range users {
				_, inFrom := before.Member(user)
				if _, inTo := to.Member(user); !inFrom && !inTo {
					t.Errorf("%s is in neither room", user)
					return
				}
			}
		}
	})
	redistest.Receive(t, looked, "the observer")
	return sync.OnceFunc(func() {
		cancel()
		looking.Wait()
	})
}

// mortal returns options of nodes that die fast.
func mortal() Options {
	return Options{LockTTL: 400 * time.Millisecond, NodeTTL: time.Second, Grace: time.Second}
}

// dies makes the cut the death of a node: it does not prolong its lease any more.
func (f *moveFaults) dies(c *Coordinator) {
	for _, at := range []map[int32]func() error{f.before, f.after} {
		for n, do := range at {
			at[n] = func() error {
				err := do()
				c.life.kill() // it does not try again
				return err
			}
		}
	}
}
