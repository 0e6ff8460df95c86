package protocol

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ptr makes the optional fields of frames readable in tables.
func ptr[T any](v T) *T { return &v }
