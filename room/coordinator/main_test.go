package coordinator

import (
	"testing"

	"go.uber.org/goleak"

	"roomd/lockmgr/redistest"
)

func TestMain(m *testing.M) {
	redistest.MostlyWaiting()
	goleak.VerifyTestMain(m)
}
