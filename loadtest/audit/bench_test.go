package audit

import (
	"fmt"
	"testing"

	"roomd/lockmgr/redistest"
)

// An audit of 100,000 commits in 20 rooms.
func BenchmarkAudit(b *testing.B) {
	rdb := redistest.Start(b).Client()
	const rooms, commits = 20, 5000
	for i := range rooms {
		w, keys := newWorld(), keysOf(rdb, "", fmt.Sprint("table-", i))
		for n := range commits {
			user := fmt.Sprint("player", n/2%500)
			if n%2 == 0 {
				w.commit("node1", w.join(user, "node1", 0, false)...)
			} else {
				w.commit("node1", w.leave(user, "left")...)
			}
		}
		p := rdb.Pipeline()
		for _, text := range w.commits {
			p.Do(b.Context(), "XADD", keys[0], "*", "commit", text)
		}
		p.HSet(b.Context(), keys[2], w.final().meta)
		p.PExpire(b.Context(), keys[0], 1e12)
		p.PExpire(b.Context(), keys[2], 1e12)
		if _, err := p.Exec(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if r, err := Run(b.Context(), rdb, Config{}); err != nil || !r.Clean() || r.Commits != rooms*commits {
			b.Fatalf("%+v, %v", r, err)
		}
	}
}
