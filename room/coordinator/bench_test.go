package coordinator

import (
	"fmt"
	"sync"
	"testing"

	"roomd/lockmgr/redistest"
	"roomd/room"
)

// BenchmarkCoordinator has players join and leave as fast as they can, spread over
// rooms. One op is one action.
func BenchmarkCoordinator(b *testing.B) {
	for _, bb := range []struct{ rooms, players int }{{1, 1}, {1, 128}, {1000, 128}, {1000, 2000}} {
		b.Run(fmt.Sprintf("rooms=%d/players=%d", bb.rooms, bb.players), func(b *testing.B) {
			c := newCoordinator(b, redistest.Start(b).Client(), Options{})
			var wg sync.WaitGroup
			b.ReportAllocs()
			b.ResetTimer()
			for p := range bb.players {
				wg.Go(func() {
					id, user := fmt.Sprint(p%bb.rooms), fmt.Sprint("player", p)
					for i := range b.N/bb.players + 1 {
						a := room.Join(user, "session")
						if i%2 == 1 {
							a = room.Leave(user, "session")
						}
						if _, err := c.Do(b.Context(), id, a); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
		})
	}
}
