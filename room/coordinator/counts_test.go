package coordinator

import (
	"testing"

	"roomd/lockmgr/redistest"
	"roomd/room"
)

// What an action costs, as far as that does not depend on the machine. Who makes it cheaper lowers the numbers
// here; a change that needs more says why.
var costs = []struct {
	name     string
	nodes    int           // that act by turns, each when it has heard of what the others did
	actions  []room.Action // one after the other, over and over
	requests float64       // to Redis, each a round trip
	commands float64       // that Redis runs, with those in scripts
	allocs   float64       // of a node alone: those of others come by events
}{
	{"a lone client", 1, []room.Action{room.Join{User: "b", Session: "s"}, room.Leave{User: "b", Session: "s"}}, 1, 7, 14},
	{"a message", 1, []room.Action{room.Say{Text: "hi"}}, 1, 6, 14},
	{"a message that is kept", 1, []room.Action{room.Say{Text: "hi"}}, 1, 9, 22},
	{"data", 1, []room.Action{room.SetData{Data: "1"}, room.SetData{Data: "2"}}, 1, 7, 26},
	{"a refusal", 1, []room.Action{room.Leave{User: "x", Session: "s"}}, 1, 4, 14},
	{"nothing to do", 1, []room.Action{room.Join{User: "a", Session: "s"}}, 1, 4, 11},
	{"two nodes by turns", 2, []room.Action{room.Join{User: "b", Session: "s"}, room.Leave{User: "b", Session: "s"}}, 1, 7, 0},
}

func TestCosts(t *testing.T) {
	for _, c := range costs {
		t.Run(c.name, func(t *testing.T) {
			server := redistest.Start(t)
			var nodes []*Coordinator
			heard := make(chan uint64, 1000)
			for range c.nodes {
				node := newCoordinator(t, server.Client(), Options{})
				nodes = append(nodes, node)
				if c.nodes > 1 {
					stop, err := node.Watch(t.Context(), "42", func(e *room.Event) { heard <- e.Version })
					redistest.OK(t, err)
					defer stop()
				}
			}
			turn := 0
			act := func() {
				r, err := nodes[turn%c.nodes].Do(t.Context(), "42", c.actions[turn%len(c.actions)])
				if turn++; err != nil && c.name != "a refusal" {
					t.Error(err)
				}
				for n := 0; c.nodes > 1 && n < c.nodes; {
					if version := redistest.Receive(t, heard, "the event"); version == r.Version {
						n++
					}
				}
			}
			mustDo(t, nodes[0], "42", room.Join{User: "a", Session: "s"})
			if c.name == "a message that is kept" {
				mustDo(t, nodes[0], "42", room.Configure{Settings: room.Settings{History: 100}})
			}
			for range 20 { // the nodes get to know the room, and each other
				act()
			}
			const runs = 400
			requests, commands := server.Ran()
			allocs := testing.AllocsPerRun(runs-1, act)
			after, commandsAfter := server.Ran()
			for range 2 { // what a node does besides can only add some
				allocs = min(allocs, testing.AllocsPerRun(runs-1, act))
			}
			perRequest, perCommand := (after-requests)/runs, (commandsAfter-commands)/runs
			t.Logf("%.2f requests, %.2f commands, %.0f allocations", perRequest, perCommand, allocs)
			const tolerance = 1.1 // a lease is prolonged now and then, and counted, too
			if perRequest > c.requests*tolerance || perCommand > c.commands*tolerance || c.allocs > 0 && allocs > c.allocs*tolerance {
				t.Errorf("%.2f requests, %.2f commands, %.0f allocations an action; %v, %v and %v are known", perRequest, perCommand, allocs, c.requests, c.commands, c.allocs)
			}
		})
	}
}
