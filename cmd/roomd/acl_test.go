package main

import (
	"context"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/loadtest"
	"roomd/lockmgr/redistest"
	"roomd/transport/node"
)

var documentedACL = regexp.MustCompile("`ACL SETUSER roomd on >secret ([^`]+)`")

// aclRule returns the rights that the manual gives to the nodes' user of Redis.
func aclRule(t *testing.T) []string {
	t.Helper()
	manual, err := os.ReadFile("OPERATING.md")
	if err != nil {
		t.Fatal(err)
	}
	found := documentedACL.FindSubmatch(manual)
	if found == nil {
		t.Fatal("OPERATING.md has no ACL rule")
	}
	return strings.Fields(string(found[1]))
}

// grant gives the user roomd those rights, and no others.
func grant(t *testing.T, admin *redis.Client, rights []string) {
	t.Helper()
	args := []any{"ACL", "SETUSER", "roomd", "reset", "on", ">secret"}
	for _, right := range rights {
		args = append(args, right)
	}
	if err := admin.Do(t.Context(), args...).Err(); err != nil {
		t.Fatal(err)
	}
}

// startCluster starts a Cluster of one server.
func startCluster(t *testing.T) *redistest.Server {
	t.Helper()
	server := redistest.Start(t, "--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1")
	admin := server.Client()
	if err := admin.Do(t.Context(), "CLUSTER", "ADDSLOTSRANGE", 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	for patience := time.Now().Add(10 * time.Second); !strings.Contains(admin.ClusterInfo(t.Context()).Val(), "cluster_state:ok"); {
		if time.Now().After(patience) {
			t.Fatal("the Cluster does not get ready")
		}
	}
	return server
}

// The rights that the manual gives suffice for a whole load on two nodes, one of which is killed in
// the middle, so that the other removes its members: Redis refuses nothing.
func TestACLSufficesForALoad(t *testing.T) {
	t.Parallel() // it mostly waits
	single := redistest.Start(t)
	t.Run("one Redis", func(t *testing.T) { playWithACL(t, single, "redis://roomd@"+single.Addr(), "Room:43:Users") })
	cluster := startCluster(t)
	t.Run("a Cluster", func(t *testing.T) {
		playWithACL(t, cluster, "redis+cluster://roomd@"+cluster.Addr(), "Room:{43}:Users")
	})
}

func playWithACL(t *testing.T, server *redistest.Server, url, members string) {
	admin := server.Client()
	grant(t, admin, aclRule(t))
	flags := []string{"--redis-password-file", writeFile(t, "secret\n"), "--lock-ttl", "1s", "--node-ttl", "1s", "--grace", "100ms", "--journal", "1000"}
	nodes := launch(t, 2, url, flags...)
	watched, gone := nodes[0].player("watcher", nil), nodes[1].player("stays away", nil)
	if _, err := watched.Watch(t.Context(), "42"); err != nil {
		t.Fatal(err)
	}
	join(t, watched, "43")
	join(t, gone, "43")
	killed := false
	r, err := loadtest.Run(t.Context(), loadtest.Config{
		Targets: []string{"ws://" + nodes[0].addr + "/ws", "ws://" + nodes[1].addr + "/ws"}, Clients: 30, Rooms: 2, Duration: 4 * time.Second,
		Progress: func(p loadtest.Progress) {
			if p.Actions > 60 && !killed {
				killed = true
				nodes[1].stop(syscall.SIGKILL)
				nodes[1].start()
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if !killed || !r.Consistent() {
		t.Errorf("killed: %v, %+v", killed, *r)
	}
	patience := time.Now().Add(10 * time.Second)
	for admin.HExists(t.Context(), members, "stays away").Val() {
		if time.Now().After(patience) {
			t.Fatal("the member of the killed node is not removed")
		}
	}
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

// Without any one of the rights a node does not start, and says what is missing, on one Redis or on
// a Cluster.
func TestACLHasNoRightTooMany(t *testing.T) {
	single, cluster := redistest.Start(t), startCluster(t)
	named := map[string]string{
		"~LockRoom:*": "SET LockRoom:*", "~Room:*": "HSET Room:*:Meta", "~Node*": "SADD Node:*:Rooms", "~Lobby:*": "HSET Lobby:*", "&LockRoom:*": "PUBLISH LockRoom:*:Wake:*", "&Room:*": "SUBSCRIBE Room:*:Events",
		"+@read": "HGETALL Room:*:Users", "+@write": "HSET Room:*:Users", "+@pubsub": "PUBLISH Room:*:Events", "+@scripting": "EVALSHA", "+@connection": "'ping'",
		"+time": "TIME", "+info": "INFO", "+cluster": "'cluster|slots'",
	}
	rights := aclRule(t)
	if rights = slices.DeleteFunc(rights, func(r string) bool { return r[0] == '-' }); len(named) != len(rights) {
		t.Errorf("the rule has %d rights, %d are tested", len(rights), len(named))
	}
	for i, right := range rights {
		server, url := single, "redis://roomd:secret@"+single.Addr()
		if right == "+cluster" {
			server, url = cluster, "redis+cluster://roomd:secret@"+cluster.Addr()
		}
		grant(t, server.Client(), slices.Delete(slices.Clone(rights), i, i+1))
		cfg, err := parse(t, "--listen", "127.0.0.1:0", "--redis", url, "--replicas", "1")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		err = run(ctx, cfg, io.Discard, func(*node.Node) { cancel() })
		cancel()
		if err == nil || !strings.Contains(err.Error(), "does not allow") || !strings.Contains(err.Error(), named[right]) || strings.Contains(err.Error(), "secret") || exitCode(err) != exitFailed {
			t.Errorf("without %s: %v", right, err)
		}
	}
}
