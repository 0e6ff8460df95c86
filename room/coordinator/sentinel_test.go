package coordinator

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator/internal/store"
)

// Primaries change under load, once by a planned failover and once because one was killed.
// The nodes go on by themselves, and put right what was lost before a check counts it as a difference.
func TestSentinel_Failover(t *testing.T) {
	t.Parallel() // it mostly waits
	redistest.Thorough(t)
	sentinel := redistest.StartSentinel(t)
	rooms := []string{"42", "43", "44"}
	var nodes []*Coordinator
	for range 2 {
		nodes = append(nodes, newCoordinator(t, sentinel.Client(), patient(reporting(0))))
	}
	watchesAll(t, nodes, rooms)
	c := startCrowd(t, nodes, rooms, 3)
	stop := findNothing(t, nodes)
	c.goOn(20)
	c.forgives() // replication is asynchronous
	sentinel.Failover()
	c.goOn(10)
	nodes[0].awaitChecks(t, 6) // longer than confirmAfter
	t.Logf("failover: at most %v without an acknowledged action", c.quiet())
	old := sentinel.Primary()
	sentinel.KillPrimary()
	c.goOn(10)
	t.Logf("primary killed: at most %v without an acknowledged action", c.quiet())
	old.Restart()
	sentinel.WaitReady()
	c.goOn(10)
	nodes[0].awaitChecks(t, 6)
	stop()
	c.finish()
}

// What was acknowledged with Replicas survives its primary.
func TestSentinel_Replicas(t *testing.T) {
	t.Parallel() // it mostly waits
	redistest.Thorough(t)
	sentinel := redistest.StartSentinel(t)
	opts := patient(Options{Replicas: 1})
	a, b := newCoordinator(t, sentinel.Client(), opts), newCoordinator(t, sentinel.Client(), opts)
	c := startCrowd(t, []*Coordinator{a, b}, []string{"42", "43", "44"}, 3)
	c.goOn(20)
	for range 2 {
		old := sentinel.Primary()
		sentinel.KillPrimary()
		old.Restart() // as the replica of the new one
		c.goOn(10)
		sentinel.WaitReady()
	}
	c.finish()
}

// serverError is an error reply.
type serverError string

func (e serverError) Error() string { return string(e) }
func (serverError) RedisError()     {}

// Whatever a server says during a failover, an action fails with one of three errors, and
// the next one succeeds when that is over.
func TestRedis_ServersRefuse(t *testing.T) {
	t.Parallel()
	for _, refusal := range []serverError{
		"READONLY You can't write against a read only replica.",
		"LOADING Redis is loading the dataset in memory",
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
		"CLUSTERDOWN The cluster is down",
		"TRYAGAIN Multiple keys request during rehashing of slot",
		"NOREPLICAS Not enough good replicas to write.",
		"MOVED 8000 127.0.0.1:1",
		"ERR max number of clients reached",
	} {
		code, _, _ := strings.Cut(string(refusal), " ")
		for name, from := range map[string]func(cmd redis.Cmder) bool{
			"all":     func(redis.Cmder) bool { return true },
			"scripts": func(cmd redis.Cmder) bool { return strings.HasPrefix(cmd.Name(), "eval") },
			"commits": func(cmd redis.Cmder) bool { return isScript(cmd, store.CommitScript) },
		} {
			t.Run(code+" to "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c, rdb := onMini(t, Options{})
					mustDo(t, c, "42", room.Join{User: "李四", Session: "s"})
					var refusing atomic.Bool
					rdb.AddHook(redistest.Hook{Before: func(_ context.Context, cmd redis.Cmder) error {
						if refusing.Load() && from(cmd) {
							return refusal
						}
						return nil
					}})
					refusing.Store(true)
					for _, id := range []string{"42", "43"} { // one it knows, and one it does not
						if _, err := c.Do(t.Context(), id, room.Join{User: "张三", Session: "s"}); !errors.Is(err, room.ErrUnavailable) && !errors.Is(err, room.ErrUnknown) && !errors.Is(err, room.ErrBusy) {
							t.Errorf("room %s: %v", id, err)
						}
					}
					refusing.Store(false)
					time.Sleep(time.Minute) // for whatever is still under way
					for _, id := range []string{"42", "43"} {
						mustDo(t, c, id, room.Join{User: "王五", Session: "s"})
						s, err := c.Read(t.Context(), id)
						redistest.ErrorIf(t, err != nil || has(s.Users(), "张三") || !has(s.Users(), "王五"),
							"room %s: %s, %v", id, describeUsers(s.Users()), err)
					}
				})
			})
		}
	}
}
