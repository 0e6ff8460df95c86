package coordinator

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if addr := os.Getenv(holderEnv); addr != "" {
		beHolder(addr)
	}
	goleak.VerifyTestMain(m)
}
