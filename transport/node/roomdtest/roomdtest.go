// Package roomdtest starts the test's own binary as roomd, on a Redis with the rights that the manual gives.
package roomdtest

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"
)

// AsRoomd is set in the environment of a test's binary that is to run as roomd: see Main.
const AsRoomd = "ROOMD_TEST_AS_ROOMD"

// Main runs main and ends the process, if Start has started this process. Call it in TestMain.
func Main(main func()) {
	if os.Getenv(AsRoomd) != "" {
		main()
		os.Exit(0)
	}
}

// FreeAddr returns a loopback address at which nobody listens.
func FreeAddr(tb testing.TB) string {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// Start runs the test's binary as roomd with these flags, and returns when it accepts clients. wrap, if not nil, is
// a command that ends with exec "$@". The caller ends the process.
func Start(tb testing.TB, wrap, flags []string) *exec.Cmd {
	tb.Helper()
	line := slices.Concat(wrap, []string{os.Args[0]}, flags, []string{"--log-format", "json"})
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Env = append(os.Environ(), AsRoomd+"=1")
	out, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		tb.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if strings.Contains(lines.Text(), "ready: connect to") {
			go func() {
				for lines.Scan() {
				}
			}()
			return cmd
		}
		tb.Log(lines.Text())
	}
	_ = cmd.Wait()
	tb.Fatal("roomd ended instead of getting ready")
	return nil
}

// Stop ends a process by a signal. After SIGTERM it has to end well.
func Stop(tb testing.TB, cmd *exec.Cmd, how os.Signal) {
	tb.Helper()
	if err := cmd.Process.Signal(how); err != nil {
		tb.Error(err)
	}
	if err := cmd.Wait(); how == syscall.SIGTERM && err != nil {
		tb.Errorf("roomd ended with %v", err)
	}
}

var documentedACL = regexp.MustCompile("`ACL SETUSER roomd on >secret ([^`]+)`")

// Manual returns the text of a page of cmd/roomd/operating, such as redis.md, or of all pages for "*.md". The
// test's package is two folders below the top.
func Manual(tb testing.TB, page string) string {
	tb.Helper()
	paths, err := filepath.Glob("../../cmd/roomd/operating/" + page)
	if err != nil || len(paths) == 0 {
		tb.Fatalf("the manual has no %s (%v)", page, err)
	}
	var all strings.Builder
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			tb.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

// Rights returns the rights that the manual gives to the nodes' user of Redis.
func Rights(tb testing.TB) []string {
	tb.Helper()
	found := documentedACL.FindStringSubmatch(Manual(tb, "redis.md"))
	if found == nil {
		tb.Fatal("the manual has no ACL rule")
	}
	return strings.Fields(found[1])
}

// Grant gives the user roomd, whose password is secret, those rights and no others.
func Grant(tb testing.TB, admin *redis.Client, rights []string) {
	tb.Helper()
	args := []any{"ACL", "SETUSER", "roomd", "reset", "on", ">secret"}
	for _, right := range rights {
		args = append(args, right)
	}
	if err := admin.Do(tb.Context(), args...).Err(); err != nil {
		tb.Fatal(err)
	}
}
