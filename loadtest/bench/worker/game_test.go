package worker

import (
	"fmt"
	"testing"
	"time"

	"roomd/lockmgr/redistest"
)

// Players at tables act at the rate that is asked for, the others hear of it, and all of it is counted.
func TestSwarm_Game(t *testing.T) {
	redistest.Thorough(t)
	server, err := StartServer(t.Context(), ServerConfig{Kind: Node, Redis: "embedded", Name: "node", Journal: 10})
	redistest.OK(t, err)
	defer server.Close()
	swarm, err := StartSwarm(t.Context())
	redistest.OK(t, err)
	defer swarm.Close()
	const players = 8
	_, err = swarm.Connect(t.Context(), ConnectConfig{Addresses: []string{server.URL}, N: players, Room: "table-", RoomSize: 4})
	redistest.OK(t, err)
	if in, err := swarm.Join(t.Context()); err != nil || Done(in) != players {
		t.Fatalf("%d are in, %v", Done(in), err)
	}
	before, err := swarm.Traffic(t.Context())
	redistest.OK(t, err)
	used, err := server.CPU(t.Context())
	redistest.OK(t, err)
	played, err := swarm.PlayGame(t.Context(), GameConfig{Duration: 2 * time.Second, Pace: 100 * time.Millisecond})
	redistest.OK(t, err)
	after, err := swarm.Traffic(t.Context())
	redistest.OK(t, err)
	if n, texts := played.Latency.Errors(); n > 0 || len(played.Latency.Refusals()) > 0 {
		t.Errorf("%v %v", texts, played.Latency.Refusals())
	}
	// Of nine moves one is two actions. A busy machine makes fewer than 160.
	moves, actions, events := Done(played.Latency), after.Actions-before.Actions, after.Events-before.Events
	if actions < int64(moves) || actions > int64(moves)*4/3+players || actions > 220 {
		t.Errorf("%d actions in %d moves", actions, moves)
	}
	if events < 2*actions || events > 4*actions { // who acts gets one, too, but for a leave and a join
		t.Errorf("%d events of %d actions at tables of four", events, actions)
	}
	if after.Received-before.Received < 50*events || after.Sent-before.Sent < 20*actions {
		t.Errorf("%+v, and before %+v", after, before)
	}
	if now, err := server.CPU(t.Context()); err != nil || !(now > used) {
		t.Errorf("processor time %v, and before %v: %v", now, used, err)
	}
	if again, err := swarm.Join(t.Context()); err != nil || Done(again) != 0 {
		t.Errorf("%d came in again, %v", Done(again), err)
	}
}

// Clients are spread over all nodes, and each comes to the same one again.
func TestConnectConfig_Address(t *testing.T) {
	c := ConnectConfig{Address: "alone"}
	if got := c.address(3); got != "alone" {
		t.Errorf("%s", got)
	}
	c.Addresses = []string{"a", "b", "c"}
	at := map[string]int{}
	for i := range 3000 {
		first := c.address(i)
		at[first]++
		if again := c.address(i); again != first {
			t.Fatalf("client %d goes to %s, and then to %s", i, first, again)
		}
	}
	for _, node := range c.Addresses {
		if at[node] < 900 || at[node] > 1100 {
			t.Errorf("%s", fmt.Sprint(at))
		}
	}
}
