package coordinator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"roomd/lockmgr"
	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator/internal/cluster"
	"roomd/room/coordinator/internal/keys"
	"roomd/room/coordinator/internal/store"
)

// patient returns options with which no node is believed dead while Redis is in trouble.
func patient(o Options) Options {
	o.Grace = time.Hour
	return o
}

// roomsOf returns rooms of each of the three nodes of a cluster, with numbers from the
// given one on.
func roomsOf(t *testing.T, servers *redistest.Cluster, from, each int) (all []string, of map[*redistest.Server][]string) {
	t.Helper()
	of = make(map[*redistest.Server][]string)
	for i := from; len(all) < each*len(servers.Addrs()); i++ {
		id := strconv.Itoa(i)
		if owner := servers.Owner(usersOf(id)); len(of[owner]) < each {
			of[owner] = append(of[owner], id)
			all = append(all, id)
		}
	}
	return all, of
}

func usersOf(id string) string { return "Room:{" + id + "}:Users" }

func TestCluster(t *testing.T) {
	t.Parallel() // it mostly waits
	servers := redistest.StartCluster(t)

	t.Run("all that is needed is allowed", func(t *testing.T) {
		var log lines
		c := newCoordinator(t, servers.Client(), Options{Log: slog.New(zerolog.NewSlogHandler(zerolog.New(&log)))})
		if err := c.Check(soon(t)); err != nil || log.count("") > 1 {
			t.Errorf("%v, %s", err, log.String())
		}
		for _, addr := range servers.Addrs() {
			client := redis.NewClient(&redis.Options{Addr: addr})
			defer client.Close()
			redistest.OK(t, client.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err())
		}
		if err := c.Check(soon(t)); err != nil || log.count("allkeys-lru") != 1 {
			t.Errorf("%v, %s", err, log.String())
		}
	})

	t.Run("keys of a room share a slot", func(t *testing.T) {
		client := servers.Client()
		c := newCoordinator(t, client, Options{})
		for _, id := range []string{"42", "-", "a.b_c-D"} {
			k := c.store.KeysOf(id)
			slots := make(map[int64][]string)
			for _, key := range append([]string{k.Users, k.Meta, k.Log, k.Events}, c.locks.Keys(id)...) {
				slot, err := client.ClusterKeySlot(t.Context(), key).Result()
				redistest.OK(t, err)
				slots[slot] = append(slots[slot], key)
			}
			redistest.ErrorIf(t, len(slots) != 1, "room %s has keys in several slots: %v", id, slots)
		}
		mustDo(t, c, "42", room.Join{User: "张三", Session: "s"})
		version := client.HGet(t.Context(), "Room:{42}:Meta", "version").Val()
		redistest.ErrorIf(t, version != "1", "the version in Room:{42}:Meta is %q", version)
		locks, err := lockmgr.New(client, lockmgr.Options{Prefix: unprefixed.LockPrefix()})
		redistest.OK(t, err)
		redistest.Equal(t, "the lock is", locks.Key("42"), "LockRoom:{42}")
	})

	t.Run("hash tags are spread over the slots", func(t *testing.T) {
		client := servers.Client()
		for i, tag := range cluster.HashTags() {
			node := tag + "n1"
			for _, key := range []string{unprefixed.Lease(node), unprefixed.NodeRooms(node), keys.Space{Cluster: true}.Nodes(tag)} {
				if slot := client.ClusterKeySlot(t.Context(), key).Val(); slot/(16384/int64(len(cluster.HashTags()))) != int64(i) {
					t.Errorf("the slot of %s is %d", key, slot)
				}
			}
		}
	})

	t.Run("a lost lease is begun at the same hash slot", func(t *testing.T) {
		client := servers.Client()
		c := newCoordinator(t, client, patient(Options{Node: "n1", LockTTL: time.Second, NodeTTL: time.Second}))
		mustDo(t, c, "42", room.Join{User: "李四", Session: "s"})
		tag, before := tagOf(c), c.Node()
		if before != tag+"n1" || client.ZScore(t.Context(), "Nodes:"+tag, before).Val() == 0 || client.SCard(t.Context(), "Node:"+before+":Rooms").Val() != 1 {
			t.Errorf("it is %s, and Redis does not know it", before)
		}
		client.Del(t.Context(), unprefixed.Lease(before))
		for c.Node() == before {
			mustDo(t, c, "42", room.Join{User: "李四", Session: "s"})
		}
		redistest.ErrorIf(t, tagOf(c) != tag, "it was %s, and is %s", before, c.Node())
	})

	t.Run("events reach other nodes", func(t *testing.T) {
		rooms, of := roomsOf(t, servers, 1000, 2)
		moving := of[servers.Node(0)][0]
		var nodes []*Coordinator
		for range 3 {
			nodes = append(nodes, newCoordinator(t, servers.Client(), Options{}))
		}
		mustDo(t, nodes[2], "1", room.Join{User: "张三", Session: "s"}) // now its client knows who has what
		var followers []*follower
		for _, id := range rooms {
			f, _ := follow(t, nodes[1], id)
			followers = append(followers, f)
		}
		change := func(node *Coordinator, a room.Action, want ...string) {
			t.Helper()
			for i, id := range rooms {
				mustDo(t, node, id, a)
				if id == moving {
					followers[i].expect(t, want[len(want)-1])
				} else {
					followers[i].expect(t, want[0])
				}
			}
		}
		change(nodes[0], room.Join{User: "李四", Session: "s"}, "1<0 +李四@0")
		change(nodes[1], room.Join{User: "张三", Session: "s"}, "2<1 +张三@1")
		servers.Move(usersOf(moving))
		// Events may have been missed in this room, and not in the others. Another server has it now,
		// so a new epoch begins there.
		followers[slices.Index(rooms, moving)].expect(t, "3= 李四@0 张三@1")
		change(nodes[0], room.Leave{User: "李四", Session: "s"}, "3<2 -李四@0", "4<3 -李四@0")
		late, _ := follow(t, nodes[2], moving)
		change(nodes[1], room.Leave{User: "张三", Session: "s"}, "4<3 -张三@1", "5<4 -张三@1")
		late.expect(t, "5<4 -张三@1")
	})

	t.Run("slots move", func(t *testing.T) {
		rooms, _ := roomsOf(t, servers, 2000, 3)
		a, b := newCoordinator(t, servers.Client(), patient(Options{})), newCoordinator(t, servers.Client(), patient(reporting(0)))
		watchesAll(t, []*Coordinator{b}, rooms)
		defer findNothing(t, []*Coordinator{b})()
		c := startCrowd(t, []*Coordinator{a, b}, rooms, 3)
		for range 5 {
			c.goOn(10)
			moving, still := rooms[:5], rooms[5:]
			// Keys are here, and there, and in between, while others go on.
			for _, step := range []func(key string){servers.BeginMove, servers.MoveKeys, servers.FinishMove} {
				for _, id := range moving {
					step(usersOf(id))
				}
				c.goOn(2, still...)
			}
			rooms = append(still, moving...)
		}
		c.goOn(10)
		c.finish()
		b.awaitChecks(t, 6) // longer than confirmAfter: its watchers have heard what Redis has
	})
}

// With Replicas a node's hash slot is on a master that has replicas, and the node writes to a
// room only after they have the record that it may have members there.
func TestReplicas_KnowTheRooms(t *testing.T) {
	t.Parallel() // it mostly waits
	redistest.Thorough(t)
	servers := redistest.StartCluster(t)
	_, of := roomsOf(t, servers, 42, 3)
	rooms := of[servers.Node(0)]
	replica := servers.AddReplica(0)
	c := newCoordinator(t, servers.Client(), patient(Options{Replicas: 1}))
	mustDo(t, c, rooms[0], room.Join{User: "张三", Session: "s"})
	redistest.ErrorIf(t, servers.Owner(tagOf(c)) != servers.Node(0), "the hash slot of %s has no replica", c.Node())
	known := replica.Client().Keys(t.Context(), "Node:*").Val()
	redistest.ErrorIf(t, len(known) != 2, "the replica knows %v", known)
	replica.Pause()
	expectRefused(t, "without the replica", c, rooms[1], room.Join{User: "张三", Session: "s"}, room.ErrUnavailable)
	replica.Resume()
	awaitUntil(t, longPatience, func() string {
		r, err := c.Do(t.Context(), rooms[1], room.Join{User: "李四", Session: "s"})
		switch {
		case errors.Is(err, room.ErrUnavailable):
			return err.Error()
		case err != nil:
			t.Fatal(err)
		case r.Version != 1:
			t.Errorf("version %d", r.Version)
		}
		return ""
	})
}

// Redis may refuse to read a room while its slot moves. Read waits for that.
func TestRead_SlotMoves(t *testing.T) {
	t.Parallel() // it mostly waits
	servers := redistest.StartCluster(t)
	client := servers.Client()
	c := newCoordinator(t, client, Options{})
	mustDo(t, c, "42", room.Join{User: "张三", Session: "s"})
	mustDo(t, c, "42", room.Leave{User: "张三", Session: "s"}) // one of the two keys is not there: Redis cannot know where
	redistest.OK(t, redistest.Err(c.Read(t.Context(), "42")))
	refused := make(chan struct{}, 1000)
	beforeScript(client, store.LoadScript, func() error {
		refused <- struct{}{}
		return nil
	})
	servers.BeginMove(usersOf("42"))
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	redistest.ErrorIs(t, "while it moves", redistest.Err(c.Read(short, "42")), context.DeadlineExceeded)
	for len(refused) > 0 {
		<-refused
	}
	read := make(chan error, 1)
	go func() {
		s, err := c.Read(t.Context(), "42")
		if err == nil && s.Version != 3 { // another server has it, so a new epoch has begun
			err = fmt.Errorf("version %d", s.Version)
		}
		read <- err
	}()
	for range 2 { // the first attempt was refused
		select {
		case <-refused:
		case err := <-read:
			t.Fatalf("while it moves: %v", err)
		}
	}
	servers.MoveKeys(usersOf("42"))
	servers.FinishMove(usersOf("42"))
	redistest.OK(t, redistest.Receive(t, read, "the room"))
}
