package coordinator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redisconn/embedded"
	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator/internal/store"
)

// outrun is a node whose commits are outrun.
type outrun struct {
	*Coordinator
	mini   *embedded.Redis
	rdb    *redis.Client
	before func() error // is called before its commits, if it is not nil
	times  int          // it still is so often
	by     func()       // what happens before its commit
	asked  []string     // what its commits have asked for, and whether the lock was held after them
}

// startOutrun returns a node that knows the room 42, in which nobody is, and another one whose players join it whenever
// the first commits.
func startOutrun(t *testing.T) *outrun {
	mini, rdb := redistest.Mini(t)
	o := &outrun{Coordinator: newCoordinator(t, rdb, Options{Trace: new(Trace)}), mini: mini, rdb: redistest.MiniClient(t, mini)}
	other, n := newCoordinator(t, redistest.MiniClient(t, mini), Options{}), 0
	for _, node := range []*Coordinator{o.Coordinator, other, o.Coordinator, other} {
		mustDo(t, node, "42", room.Say{Text: "I am here"})
		synctest.Wait() // the others have heard it, and nobody keeps a place at the lock
	}
	o.by = func() {
		n++
		mustDo(t, other, "42", room.Join{User: fmt.Sprint("other", n), Session: "s"})
	}
	rdb.AddHook(redistest.Hook{
		Before: func(_ context.Context, cmd redis.Cmder) error {
			if !isScript(cmd, store.CommitScript) {
				return nil
			}
			if o.times > 0 {
				o.times--
				o.by()
			}
			if o.before != nil {
				return o.before()
			}
			return nil
		},
		After: func(_ context.Context, cmd redis.Cmder) error {
			if isScript(cmd, store.CommitScript) {
				ttl, _ := cmd.Args()[12].(*string) // behind evalsha, its hash, the number of keys, six of them, publish, claim, token
				asks := "the lock is its own"
				if ttl != nil {
					_, asks, _ = strings.Cut(*ttl, " ")
				}
				if o.rdb.Exists(t.Context(), "LockRoom:42").Val() > 0 {
					asks += ", has the lock"
				}
				o.asked = append(o.asked, asks)
			}
			return nil
		},
	})
	return o
}

// A commit that another one has outrun comes again without the lock, a few times. Then it takes the lock, and
// nobody outruns it. Its action is done once.
func TestBehind_Lock(t *testing.T) {
	for times, want := range map[int][]string{
		0: {"wait"},
		1: {"wait", "wait"},
		3: {"wait", "wait", "wait", "lock"},
		4: {"wait", "wait", "wait", "lock, has the lock", "the lock is its own"},
	} {
		t.Run(fmt.Sprint(times), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := startOutrun(t)
				o.times = times
				r := mustDo(t, o.Coordinator, "42", room.Join{User: "a", Session: "s"})
				redistest.ErrorIf(t, len(r.Users()) != times+1 || r.Version != uint64(4+times+1),
					"%s at version %d", describeUsers(r.Users()), r.Version)
				redistest.Equal(t, "its commits", fmt.Sprintf("%q", o.asked), fmt.Sprintf("%q", want))
				o.asked, o.times = nil, 1
				mustDo(t, o.Coordinator, "42", room.Say{Text: "and on"}) // it counts anew
				redistest.Equal(t, "then its commits", fmt.Sprintf("%q", o.asked), `["wait" "wait"]`)
			})
		})
	}
}

// Where the event of the other commit does not come, the worker reads the room, after a moment.
func TestBehind_Deaf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := startOutrun(t)
		o.times, o.by = 1, func() { o.rdb.HSet(t.Context(), "Room:42:Meta", "version", 7, "mark", "another commit's") }
		began := time.Now()
		r := mustDo(t, o.Coordinator, "42", room.Join{User: "a", Session: "s"})
		if took := time.Since(began); describeUsers(r.Users()) != "a@0" || r.Version != 8 || took != eventPatience {
			t.Errorf("after %v: %s at version %d", took, describeUsers(r.Users()), r.Version)
		}
		redistest.Equal(t, "its commits", fmt.Sprintf("%q", o.asked), `["wait" "read" "read"]`)
	})
}

// A node that has not followed the room until now reads it at once.
func TestBehind_Reads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := startOutrun(t)
		time.Sleep(2 * copyIdle)
		mustDo(t, o.Coordinator, "42", room.Say{Text: "the room is mine alone"})
		o.asked, o.times = nil, 1
		mustDo(t, o.Coordinator, "42", room.Join{User: "a", Session: "s"})
		redistest.Equal(t, "its commits", fmt.Sprintf("%q", o.asked), `["read" "wait"]`)
	})
}

// A caller who has given up when the commit is behind goes at once, and what it wanted is not done.
func TestBehind_CallerGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := startOutrun(t)
		ctx, cancel := context.WithCancel(t.Context())
		outrun := o.by
		o.times, o.by = 1, func() { outrun(); cancel() }
		_, err := o.Do(ctx, "42", room.Join{User: "a", Session: "s"})
		redistest.ErrorIf(t, !errors.Is(err, context.Canceled) || errors.Is(err, room.ErrUnknown),
			"who has given up hears %v", err)
		expectRoom(t, mustDo(t, o.Coordinator, "42", room.Join{User: "b", Session: "s"}).Snapshot, "other1@0 b@1", 0)
		redistest.Equal(t, "the commits", fmt.Sprintf("%q", o.asked), `["wait" "wait"]`)
	})
}

// A node that finds that Redis has lost a member, or commits, begins a new epoch, also if its commit is refused
// meanwhile, has to wait for the lock, or meets one of a node that does not know what was lost.
func TestBehind_Lost(t *testing.T) {
	for _, lost := range []string{"a member", "commits"} {
		for _, then := range []string{"nothing", "a lock", "another commit", "another commit, unheard", "no connection"} {
			t.Run(lost+", then "+then, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { testLost(t, lost, then) }) })
		}
	}
}

func testLost(t *testing.T, lost, then string) {
	o := startOutrun(t)
	for _, user := range []string{"a", "b"} {
		mustDo(t, o.Coordinator, "42", room.Join{User: user, Session: "s"})
	}
	old := o.rdb.HGetAll(t.Context(), "Room:42:Meta").Val()
	known := mustDo(t, o.Coordinator, "42", room.Say{Text: "lost"})
	synctest.Wait()
	switch lost {
	case "a member":
		o.rdb.HDel(t.Context(), "Room:42:Users", "a")
	case "commits":
		o.rdb.HSet(t.Context(), "Room:42:Meta", old)
	}
	read := false
	o.opts.Trace.Reapplied = func() { read = len(o.asked) > 0 && o.asked[len(o.asked)-1] == "read" }
	o.before = func() error {
		if !read {
			return nil
		}
		o.before = nil
		switch then {
		case "a lock":
			o.rdb.Set(t.Context(), "LockRoom:42", "foreign", 200*time.Millisecond)
		case "another commit", "another commit, unheard":
			fresh := newCoordinator(t, redistest.MiniClient(t, o.mini), Options{})
			if lost == "a member" {
				o.rdb.HSet(t.Context(), "Room:42:Meta", "members", 1) // else it would find that, too
			}
			if mustDo(t, fresh, "42", room.Say{Text: "what was lost?"}); then == "another commit" {
				synctest.Wait()
			}
		case "no connection":
			return io.ErrUnexpectedEOF
		}
		return nil
	}
	var r room.Result
	for range 2 { // without a connection the first fails
		var err error
		if r, err = o.Do(t.Context(), "42", room.Say{Text: "on"}); err == nil {
			break
		}
	}
	synctest.Wait() // what the node does besides has ended
	redistest.ErrorIf(t, r.Epoch == known.Epoch || r.Epoch == "",
		"the epoch goes on: version %d with %s, after version %d", r.Version, describeUsers(r.Users()), known.Version)
	redistest.ErrorIf(t, !read, "the room was not read: %q", o.asked)
}
