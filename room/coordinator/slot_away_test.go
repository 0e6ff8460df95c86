package coordinator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator/internal/cluster"
	"roomd/room/coordinator/internal/keys"
	"roomd/room/coordinator/internal/store"
)

// startPartly runs a Cluster whose masters go on while one is away, and which loses nothing
// when one is killed. (The machine goes on, so nothing waits for its disk.)
func startPartly(t *testing.T) *redistest.Cluster {
	t.Helper()
	return redistest.StartCluster(t, "--cluster-require-full-coverage", "no", "--appendonly", "yes", "--appendfsync", "no")
}

// hasty returns options with short leases and a short wait for locks.
func hasty() Options {
	return patient(Options{LockTTL: time.Second, NodeTTL: time.Second, LockWait: 4 * time.Second})
}

// mastersOf returns the master of each hash tag.
func mastersOf(servers *redistest.Cluster) map[string]*redistest.Server {
	masters := make(map[string]*redistest.Server)
	for _, tag := range cluster.HashTags() {
		masters[tag] = servers.Owner(tag)
	}
	return masters
}

// splitNode returns the hash tag and the rest of a node's name on Cluster.
func splitNode(node string) (tag, name string) {
	tag, name, _ = strings.Cut(node, "}")
	return tag + "}", name
}

func tagOf(c *Coordinator) string {
	tag, _ := splitNode(c.Node())
	return tag
}

// guest is a member who joins again when told to, as a session does.
type guest struct {
	node     *Coordinator
	id, user string
}

func sitDown(t *testing.T, node *Coordinator, id, user string) *guest {
	t.Helper()
	g := &guest{node, id, user}
	ctx, cancel := context.WithCancel(t.Context())
	again, wg := make(chan struct{}, 1), sync.WaitGroup{}
	stop, err := node.Watch(ctx, id, func(e *room.Event) {
		if e.Rejoin {
			select {
			case again <- struct{}{}:
			default:
			}
		}
	})
	redistest.OK(t, err)
	mustDo(t, node, id, room.Join{User: user, Session: "s"})
	wg.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-again:
			}
			for ctx.Err() == nil {
				if _, err := node.Do(ctx, id, room.Join{User: user, Session: "s", Mode: room.JoinAgain}); err == nil {
					break
				}
			}
		}
	})
	t.Cleanup(func() { stop(); cancel(); wg.Wait() })
	return g
}

// sits returns "" if the guest is a member under the present name of its node.
func (g *guest) sits(t *testing.T, rdb redis.UniversalClient) string {
	text, err := rdb.HGet(t.Context(), usersOf(g.id), g.user).Result()
	if err != nil {
		return fmt.Sprintf("room %s: %s: %v", g.id, g.user, err)
	}
	if m, _ := store.ParseMember(text); m.Node != g.node.Node() {
		return fmt.Sprintf("room %s: %s is a member of %s, whose name is %s now", g.id, g.user, m.Node, g.node.Node())
	}
	return ""
}

// allSit waits until all guests are members under the present names of their nodes.
func allSit(t *testing.T, rdb redis.UniversalClient, guests []*guest) {
	t.Helper()
	for _, g := range guests {
		awaitUntil(t, longPatience, func() string { return g.sits(t, rdb) })
	}
}

// The master with a node's lease is away for three times as long as the lease. The node goes
// on in the rooms of the other masters, also in new ones, and its members there are members
// under its new name. When the master is back, so are those in the master's rooms.
func TestHome_Away(t *testing.T) {
	redistest.Thorough(t)
	for name, server := range map[string]struct{ leave, back func(*redistest.Server) }{
		"stopped": {(*redistest.Server).Pause, (*redistest.Server).Resume},
		"killed":  {(*redistest.Server).Kill, (*redistest.Server).Restart},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers, opts := startPartly(t), hasty()
			masters, rdb := mastersOf(servers), servers.Client()
			client := servers.Client()
			nodes := []*Coordinator{newCoordinator(t, client, opts), newCoordinator(t, servers.Client(), opts)}
			away := masters[tagOf(nodes[0])]
			rooms, of := roomsOf(t, servers, 42, 8)
			rooms = slices.DeleteFunc(rooms, func(id string) bool { return slices.Contains(of[away], id) })
			used, fresh := rooms[:len(rooms)/2], rooms[len(rooms)/2:]
			var guests []*guest
			for _, id := range slices.Concat(used, of[away]) {
				for i, node := range nodes {
					guests = append(guests, sitDown(t, node, id, fmt.Sprint("王五-", i)))
				}
			}
			allSit(t, rdb, guests)
			c := startCrowd(t, nodes[:1], used, 2)
			c.goOn(20)
			before := nodes[0].Node()
			c.quiet()

			server.leave(away)
			start := time.Now()
			client.AddHook(redistest.Hook{Before: func(_ context.Context, cmd redis.Cmder) error {
				if args := cmd.Args(); isScript(cmd, cluster.LeaseScript) && args[len(args)-1] == "" { // begins one
					if tag, _ := splitNode(args[6].(string)); masters[tag] == away && nodes[0].Node() == before {
						t.Errorf("it asks for %s, which is away", tag)
					}
				}
				return nil
			}})
			for _, id := range fresh {
				guests = append(guests, sitDown(t, nodes[0], id, "赵六"))
			}
			t.Logf("in rooms that are new to the node after %v", time.Since(start).Round(time.Millisecond))
			allSit(t, rdb, slices.DeleteFunc(slices.Clone(guests), func(g *guest) bool { return slices.Contains(of[away], g.id) }))
			t.Logf("everybody in rooms of the other masters is back after %v", time.Since(start).Round(time.Millisecond))
			for time.Since(start) < 3*opts.NodeTTL || nodes[0].Node() == before {
				c.goOn(1)
			}
			c.mu.Lock()
			redistest.ErrorIf(t, len(c.failed) > 0, "actions in rooms of the other masters: %v", c.failed)
			c.mu.Unlock()
			t.Logf("at most %v without an acknowledged action", c.quiet())
			redistest.ErrorIf(t, masters[tagOf(nodes[0])] == away,
				"its name is %s, and was %s", nodes[0].Node(), before)

			server.back(away)
			servers.WaitReady()
			allSit(t, rdb, guests)
			c.goOn(10)
			c.finish()
		})
	}
}

// A node dies while a master is away. Its members are removed from the rooms of the other
// masters, and from those of the master when it is back.
func TestHome_AwayWhileANodeDies(t *testing.T) {
	redistest.Thorough(t)
	servers, opts := startPartly(t), hasty()
	opts.Grace = -1
	masters := mastersOf(servers)
	dead, live := newCoordinator(t, servers.Client(), opts), newCoordinator(t, servers.Client(), opts)
	_, of := roomsOf(t, servers, 42, 3)
	for _, rooms := range of {
		for _, id := range rooms {
			mustDo(t, dead, id, room.Join{User: "王五", Session: "s"})
		}
	}
	home := masters[tagOf(dead)]
	away := servers.Node(0)
	if away == home {
		away = servers.Node(1)
	}
	redistest.OK(t, live.Start(t.Context()))
	empty := func(server *redistest.Server) {
		t.Helper()
		for _, id := range of[server] {
			awaitUntil(t, longPatience, func() string {
				s, err := live.Read(t.Context(), id)
				if err == nil && s.Count() == 0 {
					return ""
				}
				return fmt.Sprintf("room %s holds %s, %v", id, describeUsers(s.Users()), err)
			})
		}
	}
	away.Pause()
	die(dead)
	for server := range of {
		if server != away {
			empty(server)
		}
	}
	node, client := dead.Node(), home.Client()
	list := keys.Space{Cluster: true}.Nodes(tagOf(dead))
	redistest.ErrorIf(t, client.ZScore(t.Context(), list, node).Val() == 0, "%s is forgotten, and has members", node)
	away.Resume()
	empty(away)
	awaitUntil(t, longPatience, func() string {
		if client.ZScore(t.Context(), list, node).Err() == redis.Nil && client.Exists(t.Context(), unprefixed.NodeRooms(node)).Val() == 0 {
			return ""
		}
		return node + " is not forgotten"
	})
}
