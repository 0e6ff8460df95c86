//go:build unix

package launch_test

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"roomd/lockmgr/redistest/launch"
)

// asLauncher in the environment makes the test binary launch a server; the value "paused" makes it pause the
// server, too.
const asLauncher = "LAUNCH_TEST"

func TestMain(m *testing.M) {
	if os.Getenv(asLauncher) != "" {
		launchAndStay()
		return
	}
	goleak.VerifyTestMain(m)
}

// launchAndStay prints where its server is, and ends with its standard input.
func launchAndStay() {
	s, err := launch.Start(context.Background(), launch.Plain())
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	if os.Getenv(asLauncher) == "paused" {
		_ = s.Signal(syscall.SIGSTOP)
	}
	fmt.Println(s.Pid(), s.Addr(), s.Dir())
	_, _ = os.Stdin.Read(make([]byte, 1))
	_ = s.Close()
}
