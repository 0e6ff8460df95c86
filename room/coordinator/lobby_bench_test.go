package coordinator

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
	"roomd/room"
)

// BenchmarkLobby measures a search for 20,000 rooms of Redis, and a request meanwhile.
func BenchmarkLobby(b *testing.B) {
	client := redistest.Start(b).Client()
	_, _ = client.Pipelined(b.Context(), func(p redis.Pipeliner) error {
		for i := range MaxLobby {
			p.HSet(b.Context(), fmt.Sprintf("Room:table-%d:Meta", i), "version", 1, "members", i%5, "settings", `{"capacity":4}`)
			p.HSet(b.Context(), fmt.Sprintf("Room:table-%d:Users", i), "x", "{}")
		}
		return nil
	})
	c, err := New(client, Options{Rules: room.Rules{Seating: room.Capacity(4)}})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close(context.Background())
	b.Run("search", func(b *testing.B) {
		for b.Loop() {
			if _, err := c.lobby.load(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decode", func(b *testing.B) {
		value, _ := c.lobby.load(b.Context())
		b.SetBytes(int64(len(value)))
		for b.Loop() {
			c.lobby.shown = nil
			if _, err := c.lobby.decode(value); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("request", func(b *testing.B) {
		worst := time.Duration(0)
		for b.Loop() {
			start := time.Now()
			l, err := c.Lobby(b.Context())
			if err != nil || len(l.Rooms) != MaxLobby {
				b.Fatal(err)
			}
			worst = max(worst, time.Since(start))
		}
		b.ReportMetric(float64(worst.Microseconds())/1000, "worst-ms")
	})
}
