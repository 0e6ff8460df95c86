package redistest

import (
	"context"
	"testing"
	"time"
)

const (
	patience = time.Minute           // for a state of several servers to come about
	interval = 20 * time.Millisecond // between two looks at it
)

// waitFor polls until look returns nil, and fails the test with the last error
// and what was waited for if that takes too long.
func waitFor(tb testing.TB, what string, look func(context.Context) error) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
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
			tb.Fatalf("waited %v for %s: %v", patience, what, last)
		}
	}
}
