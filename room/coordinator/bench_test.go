package coordinator

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"roomd/lockmgr/redistest"
	"roomd/room"
)

// BenchmarkCoordinator has players join and leave as fast as they can, spread over
// rooms. One op is one action.
func BenchmarkCoordinator(b *testing.B) {
	for _, bb := range []struct{ nodes, rooms, players int }{{1, 1, 1}, {1, 1, 128}, {1, 1000, 128}, {1, 1000, 2000}, {2, 250, 500}, {4, 16, 128}} {
		b.Run(fmt.Sprintf("nodes=%d/rooms=%d/players=%d", bb.nodes, bb.rooms, bb.players), func(b *testing.B) {
			server := redistest.Start(b)
			rdb := server.Client()
			var nodes []*Coordinator
			for range bb.nodes {
				nodes = append(nodes, newCoordinator(b, server.Client(), Options{}))
			}
			var wg sync.WaitGroup
			b.ReportAllocs()
			b.ResetTimer()
			for p := range bb.players {
				wg.Go(func() {
					id, user, c := fmt.Sprint(p%bb.rooms), fmt.Sprint("player", p), nodes[p/bb.rooms%bb.nodes]
					for i := range b.N/bb.players + 1 {
						var a room.Action
						if i%2 == 0 {
							a = room.Join{User: user, Session: "session"}
						} else {
							a = room.Leave{User: user, Session: "session"}
						}
						if _, err := c.Do(b.Context(), id, a); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			calls, commands := 0.0, 0.0
			for name, stats := range rdb.InfoMap(b.Context(), "commandstats").Val()["Commandstats"] {
				n, _, _ := strings.Cut(strings.TrimPrefix(stats, "calls="), ",")
				count, _ := strconv.ParseFloat(n, 64)
				commands += count
				if name == "cmdstat_evalsha" {
					calls = count
				}
			}
			b.ReportMetric(calls/float64(b.N), "scripts/op")
			b.ReportMetric(commands/float64(b.N), "commands/op")
		})
	}
}
