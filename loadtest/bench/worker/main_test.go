package worker

import (
	"context"
	"os"
	"testing"

	"go.uber.org/goleak"
)

const dying = "dying" // a server whose process ends while it starts

func TestMain(m *testing.M) {
	Main(Kind{dying, func(context.Context, ServerConfig) (Service, error) {
		os.Exit(3)
		return nil, nil
	}})
	goleak.VerifyTestMain(m)
}
