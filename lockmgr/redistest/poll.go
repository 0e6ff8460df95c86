package redistest

import (
	"context"
	"testing"
	"time"
)

const (
	stateTimeout = time.Minute           // bounds the wait for a state of several servers
	interval     = 20 * time.Millisecond // between two looks at it
)

// waitFor polls until look returns nil. If that takes too long it fails the test, and says
// what it waited for and the last error.
func waitFor(tb testing.TB, what string, look func(context.Context) error) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), stateTimeout)
	defer cancel()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	var last error // before time ran out
	for {
		err := look(ctx)
		if err == nil {
			return
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			tb.Fatalf("waited %v for %s: %v", stateTimeout, what, last)
		}
	}
}
