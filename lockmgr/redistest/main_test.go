package redistest

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	MostlyWaiting()
	goleak.VerifyTestMain(m,
		// A client whose server was killed tries to reach it every second, and so sees up
		// to a second late that it has been closed.
		goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}
