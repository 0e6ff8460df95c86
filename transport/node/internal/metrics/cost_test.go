package metrics

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator"
)

// BenchmarkNode is what the metrics cost where nothing else limits: players of one room, without
// the network between them and the node. One op is one action.
func BenchmarkNode(b *testing.B) {
	for _, observed := range []bool{false, true} {
		b.Run(fmt.Sprintf("metrics=%t", observed), func(b *testing.B) {
			client, opts := redistest.Start(b).Client(), coordinator.Options{}
			if observed {
				m := New()
				m.Hook(client)
				opts.Trace = m.Rooms
			}
			c, err := coordinator.New(client, opts)
			redistest.OK(b, err)
			defer c.Close(context.Background())
			const players = 128
			var wg sync.WaitGroup
			b.ReportAllocs()
			b.ResetTimer()
			for p := range players {
				wg.Go(func() {
					user := fmt.Sprint("player", p)
					for i := range b.N/players + 1 {
						var a room.Action
						if i%2 == 0 {
							a = room.Join{User: user, Session: "session"}
						} else {
							a = room.Leave{User: user, Session: "session"}
						}
						if _, err := c.Do(b.Context(), "42", a); err != nil {
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
