package bench

import (
	"fmt"
	"strings"
	"testing"
)

func TestLists(t *testing.T) {
	last := map[string]membership{"in": memberIn, "in too": memberIn, "out": memberOut, "unsure": memberUnsure}
	for _, test := range []struct {
		list string
		want Violations
	}{
		{"resident,in,in too", Violations{}},
		{"in too,in,resident", Violations{}},
		{"resident,in,in too,unsure", Violations{}},
		{"resident,in", Violations{Lost: 1}},
		{"in,in too", Violations{Lost: 1}},
		{"resident,in,in too,out", Violations{Phantom: 1}},
		{"resident,in,in too,stranger,stranger", Violations{Phantom: 1, Duplicate: 1}},
		{"resident,in,in too,in,in", Violations{Duplicate: 2}},
		{"resident,in,in too,unsure,unsure", Violations{Duplicate: 1}},
		{"out,out", Violations{Lost: 3, Phantom: 1, Duplicate: 1}},
		{"a,b,c,d,e,f,g,resident,in,in too", Violations{Phantom: 7}}, // of which some are described
	} {
		r := newRoster("42", []string{"resident"})
		for user, m := range last {
			r.add(user, m)
		}
		var got Violations
		got.check(r, strings.Split(test.list, ","))
		if len(got.texts) != min(got.total(), maxTexts) {
			t.Errorf("[%s]: %d violations are described as %q", test.list, got.total(), got.texts)
		}
		got.texts = nil
		if fmt.Sprint(got) != fmt.Sprint(test.want) {
			t.Errorf("[%s]: %+v, want %+v", test.list, got, test.want)
		}
	}
}

// Clients are spread evenly, and those of one room over all nodes.
func TestWorkload_WhoActsWhere(t *testing.T) {
	for _, w := range workloads {
		if w.kind == ofMemory {
			continue // Config.cells says how many
		}
		names := w.names("x-")
		room, at := make(map[int]int), make(map[int]int)
		nodes := make(map[int]map[int]bool)
		for i := range w.clients {
			r, n := w.room(i), w.node(i)
			room[r]++
			at[n]++
			if nodes[r] == nil {
				nodes[r] = make(map[int]bool)
			}
			nodes[r][n] = true
		}
		if w.kind == ofLocks { // each client takes any of them
			if len(names) != w.rooms || len(at) != w.nodes {
				t.Errorf("%s: %d names, clients on %d nodes", w.name, len(names), len(at))
			}
			continue
		}
		if len(names) != len(room) || len(room) != min(w.rooms, w.clients) || len(at) != w.nodes {
			t.Errorf("%s: %d names, clients in %d rooms and on %d nodes", w.name, len(names), len(room), len(at))
		}
		for r, n := range room {
			if n != max(1, w.clients/w.rooms) || len(nodes[r]) != w.nodes {
				t.Errorf("%s: room %d has %d clients on %d nodes", w.name, r, n, len(nodes[r]))
			}
		}
		for n, clients := range at {
			if clients != w.clients/w.nodes || w.connections() > clients {
				t.Errorf("%s: node %d has %d clients and %d connections", w.name, n, clients, w.connections())
			}
		}
	}
}
