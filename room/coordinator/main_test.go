package coordinator

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"roomd/lockmgr/redistest"
)

func TestMain(m *testing.M) {
	if addr := os.Getenv(holderEnv); addr != "" {
		beHolder(addr)
	}
	redistest.MostlyWaiting()
	goleak.VerifyTestMain(m)
}
