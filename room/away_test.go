package room

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
)

// startPartly runs a Cluster whose masters go on while one is away, and that keeps
// what it has acknowledged when one is killed. (The machine is not: nothing waits for
// its disk.)
func startPartly(t *testing.T) *redistest.Cluster {
	t.Helper()
	return redistest.StartCluster(t, "--cluster-require-full-coverage", "no", "--appendonly", "yes", "--appendfsync", "no")
}

// hasty is patient with leases that are soon over, and not with actions that hang.
func hasty() Options {
	return patient(Options{LockTTL: time.Second, NodeTTL: time.Second, LockWait: 4 * time.Second})
}

// mastersOf returns the master of each home.
func mastersOf(cluster *redistest.Cluster) map[string]*redistest.Server {
	masters := make(map[string]*redistest.Server)
	for _, home := range homes {
		masters[home] = cluster.Owner(home)
	}
	return masters
}

func homeOf(c *Coordinator) string {
	home, _ := splitNode(c.Node())
	return home
}

// guest is a member who joins again when told to, as a session does.
type guest struct {
	node       *Coordinator
	room, user string
}

func sitDown(t *testing.T, node *Coordinator, room, user string) *guest {
	t.Helper()
	g := &guest{node, room, user}
	ctx, cancel := context.WithCancel(t.Context())
	again, wg := make(chan struct{}, 1), sync.WaitGroup{}
	stop, err := node.Watch(ctx, room, func(e *Event) {
		if e.Rejoin {
			select {
			case again <- struct{}{}:
			default:
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	mustDo(t, node, room, Join(user, "s"))
	wg.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-again:
			}
			for ctx.Err() == nil {
				if _, err := node.Do(ctx, room, Join(user, "s").Again()); err == nil {
					break
				}
			}
		}
	})
	t.Cleanup(func() { stop(); cancel(); wg.Wait() })
	return g
}

// sits returns "" if the guest is a member of the node by the name that lives.
func (g *guest) sits(t *testing.T, rdb redis.UniversalClient) string {
	text, err := rdb.HGet(t.Context(), usersOf(g.room), g.user).Result()
	if err != nil {
		return fmt.Sprintf("room %s: %s: %v", g.room, g.user, err)
	}
	if m, _ := parseMember(text); m.Node != g.node.Node() {
		return fmt.Sprintf("room %s: %s is a member of %s, whose name is %s now", g.room, g.user, m.Node, g.node.Node())
	}
	return ""
}

// allSit waits until all guests are members of nodes that live.
func allSit(t *testing.T, rdb redis.UniversalClient, guests []*guest) {
	t.Helper()
	for _, g := range guests {
		awaitUntil(t, longPatience, func() string { return g.sits(t, rdb) })
	}
}

// The master with a node's lease is away for three times what a lease lasts. In the
// rooms of the others the node goes on, also in those that it has not used before, and
// its members are its own by its new name; when the master is back so are those in the
// master's rooms.
func TestAHomeIsAway(t *testing.T) {
	for name, server := range map[string]struct{ leave, back func(*redistest.Server) }{
		"stopped": {(*redistest.Server).Pause, (*redistest.Server).Resume},
		"killed":  {(*redistest.Server).Kill, (*redistest.Server).Restart},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster, opts := startPartly(t), hasty()
			masters, rdb := mastersOf(cluster), cluster.Client()
			client := cluster.Client()
			nodes := []*Coordinator{newCoordinator(t, client, opts), newCoordinator(t, cluster.Client(), opts)}
			away := masters[homeOf(nodes[0])]
			rooms, of := roomsOf(t, cluster, 42, 8)
			rooms = slices.DeleteFunc(rooms, func(room string) bool { return slices.Contains(of[away], room) })
			used, fresh := rooms[:len(rooms)/2], rooms[len(rooms)/2:]
			var guests []*guest
			for _, room := range slices.Concat(used, of[away]) {
				for i, node := range nodes {
					guests = append(guests, sitDown(t, node, room, fmt.Sprint("王五-", i)))
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
				if args := cmd.Args(); isScript(cmd, leaseScript) && args[len(args)-1] == "" { // begins one
					if home, _ := splitNode(args[6].(string)); masters[home] == away && nodes[0].Node() == before {
						t.Errorf("it asks for %s, which is away", home)
					}
				}
				return nil
			}})
			for _, room := range fresh {
				guests = append(guests, sitDown(t, nodes[0], room, "赵六"))
			}
			t.Logf("in rooms that are new to the node after %v", time.Since(start).Round(time.Millisecond))
			allSit(t, rdb, slices.DeleteFunc(slices.Clone(guests), func(g *guest) bool { return slices.Contains(of[away], g.room) }))
			t.Logf("everybody in rooms of the other masters is back after %v", time.Since(start).Round(time.Millisecond))
			for time.Since(start) < 3*opts.NodeTTL || nodes[0].Node() == before {
				c.goOn(1)
			}
			c.mu.Lock()
			if len(c.failed) > 0 {
				t.Errorf("actions in rooms of the other masters: %v", c.failed)
			}
			c.mu.Unlock()
			t.Logf("at most %v without an acknowledged action", c.quiet())
			if masters[homeOf(nodes[0])] == away {
				t.Errorf("its name is %s, and was %s", nodes[0].Node(), before)
			}

			server.back(away)
			cluster.WaitReady()
			allSit(t, rdb, guests)
			c.goOn(10)
			c.finish()
		})
	}
}

// A node dies, and so does a master of rooms and of homes. The dead node's members leave
// the rooms of the other masters, and those of the master when it is back.
func TestANodeDiesWhileAMasterIsAway(t *testing.T) {
	cluster, opts := startPartly(t), hasty()
	opts.Grace = -1
	masters := mastersOf(cluster)
	dead, live := newCoordinator(t, cluster.Client(), opts), newCoordinator(t, cluster.Client(), opts)
	_, of := roomsOf(t, cluster, 42, 3)
	for _, rooms := range of {
		for _, room := range rooms {
			mustDo(t, dead, room, Join("王五", "s"))
		}
	}
	home := masters[homeOf(dead)]
	away := cluster.Node(0)
	if away == home {
		away = cluster.Node(1)
	}
	if err := live.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	empty := func(server *redistest.Server) {
		t.Helper()
		for _, room := range of[server] {
			awaitUntil(t, longPatience, func() string {
				s, err := live.Read(t.Context(), room)
				if err == nil && s.Count() == 0 {
					return ""
				}
				return fmt.Sprintf("room %s holds %s, %v", room, describeUsers(s.Users()), err)
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
	list := nodesKey + ":" + homeOf(dead)
	if client.ZScore(t.Context(), list, node).Val() == 0 {
		t.Errorf("%s is forgotten, and has members", node)
	}
	away.Resume()
	empty(away)
	awaitUntil(t, longPatience, func() string {
		if client.ZScore(t.Context(), list, node).Err() == redis.Nil && client.Exists(t.Context(), nodeRoomsKey(node)).Val() == 0 {
			return ""
		}
		return node + " is not forgotten"
	})
}
