package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"roomd/loadtest"
	"roomd/lockmgr/redistest"
	"roomd/transport/client"
	"roomd/transport/node/roomdtest"
	"roomd/transport/protocol"
)

func TestMain(m *testing.M) {
	roomdtest.Main(main)
	redistest.MostlyWaiting()
	goleak.VerifyTestMain(m)
}

// process is a roomd of its own.
type process struct {
	t    *testing.T
	addr string
	args []string
	cmd  *exec.Cmd
}

// launch starts n processes on one Redis, which end with the test at the latest.
func launch(t *testing.T, n int, redisURL string, flags ...string) (nodes []*process) {
	t.Helper()
	for range n {
		addr := roomdtest.FreeAddr(t)
		p := &process{t: t, addr: addr, args: append([]string{"--listen", addr, "--redis", redisURL}, flags...)}
		t.Cleanup(func() {
			_ = p.cmd.Process.Kill()
			_ = p.cmd.Wait()
		})
		p.start()
		nodes = append(nodes, p)
	}
	return nodes
}

// start returns when the process accepts clients.
func (p *process) start() {
	p.t.Helper()
	p.cmd = roomdtest.Start(p.t, nil, p.args)
}

func (p *process) stop(how os.Signal) {
	p.t.Helper()
	roomdtest.Stop(p.t, p.cmd, how)
}

// player is connected to a node.
func (p *process) player(name string) *client.Conn {
	p.t.Helper()
	c, err := client.Dial(p.t.Context(), "ws://"+p.addr+"/ws", client.Options{User: name})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { c.Close() })
	return c
}

// actionsIn returns the actions in a line such as "1 s of 20 s: 120 actions".
func actionsIn(progress string) (n int) {
	_, counts, _ := strings.Cut(progress, ": ")
	_, _ = fmt.Sscan(counts, &n) // 0 for a line without them
	return n
}

// Two nodes serve players; one of them is told to stop in the middle of it, and
// started again. Whatever it had acknowledged is in the lists.
func TestRestartsUnderLoadLoseNothing(t *testing.T) {
	redistest.Thorough(t)
	t.Parallel() // it mostly waits
	for _, how := range []os.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(fmt.Sprint(how), func(t *testing.T) {
			server := redistest.Start(t)
			var nodes []*process
			var targets []string
			for _, p := range launch(t, 2, server.URL()) {
				nodes, targets = append(nodes, p), append(targets, "ws://"+p.addr+"/ws")
			}
			playing, enough := context.WithCancel(t.Context())
			defer enough()
			restarts, before := 0, 0
			r, err := loadtest.Run(playing, loadtest.Config{
				Targets: targets, Redis: server.URL(), Clients: 40, Rooms: 2, Duration: 20 * time.Second,
				Progress: func(_ time.Duration, _ bool, line string) {
					switch actions := actionsIn(line); {
					case actions < before+60:
					case restarts == 2:
						enough()
					default:
						restarts, before = restarts+1, actions
						nodes[0].stop(how)
						nodes[0].start()
					}
				},
			})
			for _, p := range nodes {
				p.stop(syscall.SIGTERM)
			}
			redistest.OK(t, err)
			if restarts != 2 {
				t.Errorf("%d restarts in %d actions", restarts, r.Actions)
			}
			if !r.Consistent() {
				t.Errorf("%+v", *r)
			}
			t.Logf("%d actions, %d unknown, %d errors, %d restarts", r.Actions, r.Unknown, r.Errors, restarts)
		})
	}
}

// The rights that the manual gives suffice for a whole load on two nodes, one of which is killed in
// the middle, so that the other removes its members: Redis refuses nothing.
func TestACLSufficesForALoad(t *testing.T) {
	redistest.Thorough(t)
	t.Parallel() // it mostly waits
	single := redistest.Start(t)
	t.Run("one Redis", func(t *testing.T) { playWithACL(t, single, "redis://roomd@"+single.Addr(), "Room:43:Users") })
	cluster := redistest.StartClusterOfOne(t)
	t.Run("a Cluster", func(t *testing.T) {
		playWithACL(t, cluster, "redis+cluster://roomd@"+cluster.Addr(), "Room:{43}:Users")
	})
}

func playWithACL(t *testing.T, server *redistest.Server, url, members string) {
	admin := server.Client()
	roomdtest.Grant(t, admin, roomdtest.Rights(t))
	secret := filepath.Join(t.TempDir(), "secret")
	redistest.OK(t, os.WriteFile(secret, []byte("secret\n"), 0o600))
	flags := []string{"--redis-password-file", secret, "--lock-ttl", "1s", "--node-ttl", "1s", "--grace", "100ms", "--journal", "1000"}
	nodes := launch(t, 2, url, flags...)
	watched, gone := nodes[0].player("watcher"), nodes[1].player("stays away")
	if _, err := watched.Do(t.Context(), protocol.Request{Action: protocol.ActionWatch, Room: "42"}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*client.Conn{watched, gone} {
		if _, err := c.Do(t.Context(), protocol.Request{Action: protocol.ActionJoin, Room: "43"}); err != nil {
			t.Fatal(err)
		}
	}
	playing, enough := context.WithCancel(t.Context())
	defer enough()
	killed, before := false, 0
	r, err := loadtest.Run(playing, loadtest.Config{
		Targets: []string{"ws://" + nodes[0].addr + "/ws", "ws://" + nodes[1].addr + "/ws"}, Clients: 30, Rooms: 2, Duration: 20 * time.Second,
		Progress: func(_ time.Duration, _ bool, line string) {
			switch actions := actionsIn(line); {
			case actions < before+60:
			case killed:
				enough()
			default:
				killed, before = true, actions
				nodes[1].stop(syscall.SIGKILL)
				nodes[1].start()
			}
		},
	})
	redistest.OK(t, err)
	if !killed || !r.Consistent() {
		t.Errorf("killed: %v, %+v", killed, *r)
	}
	redistest.Until(t, "the member of the killed node is removed", func() bool { return !admin.HExists(t.Context(), members, "stays away").Val() })
	for _, p := range nodes {
		p.stop(syscall.SIGTERM)
	}
	roomd := *admin.Options()
	roomd.Username, roomd.Password = "roomd", "secret"
	as := redis.NewClient(&roomd)
	defer as.Close()
	if denied := admin.Do(t.Context(), "ACL", "LOG").Val(); len(denied.([]any)) > 0 {
		t.Errorf("Redis has refused: %v", denied)
	}
	if err := as.FlushAll(t.Context()).Err(); !redis.HasErrorPrefix(err, "NOPERM") {
		t.Errorf("who has the password can delete everything: %v", err)
	}
}
