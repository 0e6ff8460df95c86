package bench

import (
	"fmt"
	"strings"
	"testing"
)

func TestLists(t *testing.T) {
	last := map[string]membership{"resident": memberIn, "in": memberIn, "in too": memberIn, "out": memberOut, "unsure": memberUnsure}
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
		var got Violations
		got.check("42", last, strings.Split(test.list, ","))
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
		at, in, both := make(map[int]int), make(map[int]int), make(map[[2]int]bool)
		for i := range w.clients {
			at[w.node(i)]++
			in[w.room(i)]++
			both[[2]int{w.node(i), w.room(i)}] = true
		}
		names := w.names("x-")
		if len(at) != w.nodes || w.kind == ofLocks && len(names) != w.rooms { // each client takes any lock
			t.Errorf("%s: %d names, clients on %d nodes", w.name, len(names), len(at))
		}
		if w.kind != ofLocks && (len(names) != len(in) || len(in) != min(w.rooms, w.clients) || len(both) != len(in)*w.nodes) {
			t.Errorf("%s: %d names, clients in %d rooms, at %d places", w.name, len(names), len(in), len(both))
		}
		for r, n := range in {
			if w.kind != ofLocks && n != max(1, w.clients/w.rooms) {
				t.Errorf("%s: room %d has %d clients", w.name, r, n)
			}
		}
		for n, clients := range at {
			if clients != w.clients/w.nodes || w.connections() > clients {
				t.Errorf("%s: node %d has %d clients and %d connections", w.name, n, clients, w.connections())
			}
		}
	}
}
