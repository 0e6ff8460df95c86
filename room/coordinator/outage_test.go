package coordinator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"roomd/lockmgr/redistest"
	"roomd/room"
)

// switchboard is a connection to Redis that can be cut.
type switchboard struct {
	dial func(ctx context.Context, network, addr string) (net.Conn, error)

	mu    sync.Mutex
	away  bool       // guarded by mu
	conns []net.Conn // guarded by mu
}

func (s *switchboard) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return nil, errors.New("connection refused")
	}
	c, err := s.dial(ctx, network, addr)
	s.conns = append(s.conns, c)
	return c, err
}

func (s *switchboard) set(away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = away
	if away {
		for _, c := range s.conns {
			_ = c.Close()
		}
		s.conns = nil
	}
}

// Redis is away for a minute while clients do what they like: the log has two lines for each
// kind of trouble.
func TestLog_Outage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, _ := redistest.Mini(t)
		opts := mini.Options()
		way := &switchboard{dial: opts.Dialer}
		opts.Dialer = way.Dial
		client := redis.NewClient(opts)
		defer client.Close()
		var log bytes.Buffer
		c, err := New(client, Options{Log: slog.New(zerolog.NewSlogHandler(zerolog.New(zerolog.SyncWriter(&log))))})
		redistest.OK(t, err)
		redistest.OK(t, c.Start(t.Context()))
		for i := range 50 {
			id := fmt.Sprint("room-", i)
			mustDo(t, c, id, room.Join{User: "张三", Session: "s"})
			stop, err := c.Watch(t.Context(), id, func(*room.Event) {})
			redistest.OK(t, err)
			defer stop()
		}
		way.set(true)
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
					if _, err := c.Do(t.Context(), fmt.Sprint("room-", i), room.Join{User: "李四", Session: "s"}); err == nil {
						t.Error("joined without Redis")
					}
				}
			})
		}
		wg.Wait()
		way.set(false)
		time.Sleep(10 * time.Minute)
		mustDo(t, c, "room-1", room.Join{User: "李四", Session: "s"})
		synctest.Wait()
		begun := make(map[string]int) // of each kind, less those that are over
		for line := range strings.Lines(log.String()) {
			var entry struct{ Level, Message string }
			redistest.OK(t, json.Unmarshal([]byte(line), &entry))
			kind, over := strings.CutPrefix(entry.Message, "over: ")
			switch _, known := begun[kind]; {
			case entry.Level != "warn":
			case over:
				begun[kind]--
			case known:
				t.Errorf("it says more than once that %s", kind)
			default:
				begun[kind]++
			}
		}
		for kind, n := range begun {
			redistest.ErrorIf(t, n != 0, "it does not say that this is over: %s", kind)
		}
		redistest.ErrorIf(t, len(begun) < 5 || t.Failed(), "%d kinds of trouble:\n%.5000s", len(begun), log.String())
		redistest.OK(t, c.Close(t.Context()))
	})
}
