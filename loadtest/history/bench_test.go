package history

import (
	"fmt"
	"runtime"
	"testing"
)

// BenchmarkChanged feeds one event to one connection. The ledger stores the first event
// of a version in a room, and compares the others with it.
func BenchmarkChanged(b *testing.B) {
	for _, connections := range []int{1, 20} {
		b.Run(fmt.Sprintf("connections=%d", connections), func(b *testing.B) {
			l := NewLedger(Options{})
			views := make([]*View, connections)
			for i := range views {
				views[i] = l.View("r", "a", "a")
				views[i].Joined(0, List{Epoch: "e", Version: 1, Count: 1, Users: []Member{{User: "a", Seat: 0}}})
			}
			join, leave := []Change{{Type: Join, User: "b", Seat: 1}}, []Change{{Type: Leave, User: "b", Seat: 1}}
			version := uint64(1)
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				if n%connections == 0 {
					version++
				}
				changes := join
				if version%2 == 1 {
					changes = leave
				}
				views[n%connections].Changed(Event{"e", version, version - 1, changes})
			}
			if l.Violations().Total() != 0 {
				b.Fatal(l.Violations().Descriptions())
			}
		})
	}
}

// BenchmarkCheck replays a room of ten thousand versions and reports the memory for a
// version.
func BenchmarkCheck(b *testing.B) {
	const versions = 10_000
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	l := NewLedger(Options{})
	a, c := l.View("r", "a", "a"), l.View("r", "b", "b")
	a.Joined(0, List{Epoch: "e", Version: 1, Count: 1, Users: []Member{{User: "a", Seat: 0}}})
	for v := uint64(2); v < versions; v += 2 {
		c.Joined(1, List{Epoch: "e", Version: v, Count: 2, Users: []Member{{User: "a", Seat: 0}, {User: "b", Seat: 1}}})
		a.Changed(Event{"e", v, v - 1, []Change{{Type: Join, User: "b", Seat: 1}}})
		c.Left("e", v+1, 1)
		a.Changed(Event{"e", v + 1, v, []Change{{Type: Leave, User: "b", Seat: 1}}})
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	final := map[string]RoomState{"r": {Epoch: "e", Version: versions - 1, Users: []Member{{User: "a", Seat: 0}}}}
	for b.Loop() {
		l.Check(final)
	}
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/versions, "B/version")
	if l.Violations().Total() != 0 {
		b.Fatal(l.Violations().Descriptions())
	}
}
