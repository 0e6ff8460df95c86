package coordinator

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
)

// A coordinator is alive also without Redis. It is not if the loop of its lease hangs, and is
// again when that goes on.
func TestAlive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, rdb := redistest.Mini(t)
		hang := make(chan struct{})
		var hangs, away atomic.Bool
		rdb.AddHook(redistest.Hook{Before: func(context.Context, redis.Cmder) error {
			if hangs.Load() {
				<-hang // and does not look at the context
			}
			if away.Load() {
				return errors.New("away")
			}
			return nil
		}})
		c := newCoordinator(t, rdb, Options{})
		check := func(when string, alive bool) {
			t.Helper()
			if err := c.Alive(); (err == nil) != alive || err != nil && !strings.Contains(err.Error(), "lease") {
				t.Errorf("%s: %v", when, err)
			}
		}
		check("before the start", true)
		time.Sleep(10 * time.Minute)
		check("long before the start", true)
		redistest.OK(t, c.Start(t.Context()))
		time.Sleep(10 * time.Minute)
		check("after ten minutes", true)
		away.Store(true)
		time.Sleep(10 * time.Minute)
		check("without Redis", true)
		away.Store(false)
		time.Sleep(time.Minute)
		hangs.Store(true)
		time.Sleep(10 * DefaultNodeTTL / 2)
		check("at first", true)
		time.Sleep(10 * DefaultNodeTTL)
		check("hanging", false)
		hangs.Store(false)
		close(hang)
		time.Sleep(time.Minute)
		check("going on", true)
		err := c.Close(t.Context())
		redistest.ErrorIf(t, err != nil && !errors.Is(err, context.Canceled), "%v", err)
		time.Sleep(10 * time.Minute)
		check("closed", true)
	})
}
