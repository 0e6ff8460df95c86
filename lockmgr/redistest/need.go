package redistest

import (
	"flag"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
)

// Thorough skips a test unless ROOMD_TESTS is thorough: one with many seeds, real failovers or every browser view. A
// shorter version of it, or a few of the views, always run.
func Thorough(tb testing.TB) {
	tb.Helper()
	if os.Getenv("ROOMD_TESTS") != "thorough" {
		tb.Skip("takes long: runs with ROOMD_TESTS=thorough")
	}
}

// Nightly skips a test that takes too long for every change, unless ROOMD_TESTS is nightly.
func Nightly(tb testing.TB) {
	tb.Helper()
	if os.Getenv("ROOMD_TESTS") != "nightly" {
		tb.Skip("takes long: runs with ROOMD_TESTS=nightly")
	}
}

// MostlyWaiting runs twice as many t.Parallel tests at once as there are processors, unless -parallel says
// otherwise. Call it in TestMain of a package whose tests mostly wait for servers. It sets GOGC to 400 unless
// that is set, because their heaps are small and would be collected all the time.
func MostlyWaiting() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	// Every test binary has this flag, and parses its command line later.
	_ = flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0)))
}

// Need skips a test if a program is not installed, or fails it if CI is set.
func Need(tb testing.TB, name string) {
	tb.Helper()
	if _, err := exec.LookPath(name); err == nil {
		return
	}
	if os.Getenv("CI") != "" {
		tb.Fatalf("%s is not installed; in CI it has to be", name)
	}
	tb.Skipf("%s is not installed: this test needs the real one", name)
}

// needTLS skips a test if redis-server is not installed or was built without TLS, or fails it if CI is set.
func needTLS(tb testing.TB) {
	tb.Helper()
	Need(tb, "redis-server")
	// It does not start either way, but says whether it knows the option.
	said, _ := exec.Command("redis-server", "--tls-port", "none").CombinedOutput()
	if !strings.Contains(string(said), "Bad directive") {
		return
	}
	if os.Getenv("CI") != "" {
		tb.Fatal("redis-server was built without TLS; in CI it has to have it")
	}
	tb.Skip("redis-server was built without TLS: this test needs it")
}
