package redistest

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	MostlyWaiting()
	goleak.VerifyTestMain(m,
		// A client retries its dead server every second, so it notices up to a second late that it was closed.
		goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}
