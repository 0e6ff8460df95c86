package node

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"

	"roomd/lockmgr/redistest"
	"roomd/transport/node/roomdtest"
)

// Without any one of the rights a node does not start, and says what is missing, on one Redis or on
// a Cluster.
func TestACL_NoRightTooMany(t *testing.T) {
	t.Parallel()
	single, cluster := redistest.Start(t), redistest.StartClusterOfOne(t)
	named := map[string]string{
		"~LockRoom:*": "SET LockRoom:*", "~Room:*": "HSET Room:*:Meta", "~Node*": "SADD Node:*:Rooms", "~Lobby:*": "HSET Lobby:*", "~Timers:*": "ZADD Timers:due", "~Feed:*": "HSET Feed:Rooms", "&LockRoom:*": "PUBLISH LockRoom:*:Wake:*", "&Room:*": "SUBSCRIBE Room:*:Events",
		"+@read": "HGETALL Room:*:Users", "+@write": "HSET Room:*:Users", "+@pubsub": "PUBLISH Room:*:Events", "+@scripting": "EVALSHA", "+@transaction": "MULTI", "+@connection": "PING",
		"+time": "TIME", "+info": "INFO", "+cluster": "CLUSTER SLOTS",
	}
	rights := roomdtest.Rights(t)
	if rights = slices.DeleteFunc(rights, func(r string) bool { return r[0] == '-' }); len(named) != len(rights) {
		t.Errorf("the rule has %d rights, %d are tested", len(rights), len(named))
	}
	for i, right := range rights {
		server, url := single, "redis://roomd:secret@"+single.Addr()
		if right == "+cluster" {
			server, url = cluster, "redis+cluster://roomd:secret@"+cluster.Addr()
		}
		roomdtest.Grant(t, server.Client(), slices.Delete(slices.Clone(rights), i, i+1))
		cfg, err := parse(t, "--listen", "127.0.0.1:0", "--redis", url, "--replicas", "1", "--journal", "10", "--feed", "10")
		redistest.OK(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		err = run(ctx, cfg, io.Discard, func(*Node) { cancel() })
		cancel()
		if err == nil || !strings.Contains(err.Error(), "does not allow") || !strings.Contains(err.Error(), named[right]) || strings.Contains(err.Error(), "secret") || exitCode(err) != exitFailed {
			t.Errorf("without %s: %v", right, err)
		}
	}
}
