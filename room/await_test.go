package room

import (
	"context"
	"fmt"
	"testing"
	"time"
)

const (
	// patience is how long a test waits for what it expects, and longPatience where
	// servers have to agree first who is in charge.
	patience     = 15 * time.Second
	longPatience = time.Minute
)

// soon returns a context that ends when a test has waited for long enough. What waits
// says what it waited for.
func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeoutCause(t.Context(), patience, fmt.Errorf("it has not come about within %v", patience))
	t.Cleanup(cancel)
	return ctx
}

// await returns what comes from a channel.
func await[T any](t testing.TB, from <-chan T, what string) (came T) {
	t.Helper()
	select {
	case came = <-from:
	case <-time.After(patience):
		t.Fatalf("waited %v for %s", patience, what)
	}
	return came
}

// awaitUntil waits until look returns "", which otherwise says what is missing.
func awaitUntil(t testing.TB, patience time.Duration, look func() (missing string)) {
	t.Helper()
	for start := time.Now(); ; {
		missing := look()
		if missing == "" {
			return
		}
		if time.Since(start) > patience {
			t.Fatalf("after %v: %s", patience, missing)
		}
		pause(t.Context(), 10*time.Millisecond)
	}
}
