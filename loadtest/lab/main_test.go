package lab

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"roomd/lockmgr/redistest"
)

func TestMain(m *testing.M) {
	redis.SetLogger(&logging.VoidLogger{}) // connections end on purpose here
	redistest.MostlyWaiting()
	goleak.VerifyTestMain(m)
}
