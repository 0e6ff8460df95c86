package redistest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"roomd/lockmgr/redistest/certs"
	"roomd/lockmgr/redistest/launch"
)

// StartTLS runs a redis-server as Start does, which speaks TLS at addr, to clients with a certificate
// of authority; Addr and Client still mean the port without TLS. If redis-server was built without
// TLS, StartTLS skips the test, or fails it if CI is set.
func StartTLS(tb testing.TB, authority *certs.Authority, args ...string) (s *Server, addr string) {
	tb.Helper()
	needTLS(tb)
	options := tlsOptions(authority)
	command := launch.Plain()
	plain := command.Args
	command.Args = func(s *launch.Server) ([]string, error) {
		port, err := launch.FreePort()
		if err != nil {
			return nil, err
		}
		addr = fmt.Sprintf("127.0.0.1:%d", port)
		line, err := plain(s)
		line = append(line, "--tls-port", strconv.Itoa(port))
		for _, option := range options {
			line = append(line, "--"+option[0], option[1])
		}
		return append(line, args...), err
	}
	return start(tb, command), addr
}

// StartSentinelTLS runs one sentinel that speaks only TLS, asks for a password, and calls the server
// at primary the primary, whose default user has no password. It returns the sentinel's address.
func StartSentinelTLS(tb testing.TB, authority *certs.Authority, primary, password string) (addr string) {
	tb.Helper()
	needTLS(tb)
	host, port, _ := strings.Cut(primary, ":")
	options := tlsOptions(authority)
	s := start(tb, launch.Command{Ready: "Sentinel ID is", Args: func(s *launch.Server) ([]string, error) {
		var conf strings.Builder
		fmt.Fprintf(&conf, "port 0\ntls-port %d\nbind 127.0.0.1\ndir %q\nlogfile \"\"\nrequirepass %s\ntls-replication yes\n", s.Port(), s.Dir(), password)
		for _, option := range options {
			fmt.Fprintf(&conf, "%s %q\n", option[0], option[1])
		}
		fmt.Fprintf(&conf, "sentinel monitor %s %s %s 1\n", masterName, host, port)
		path := filepath.Join(s.Dir(), "sentinel.conf")
		return []string{path, "--sentinel"}, os.WriteFile(path, []byte(conf.String()), 0o600)
	}})
	return s.Addr()
}

func tlsOptions(authority *certs.Authority) [][2]string {
	cert, key := authority.Issue("redis")
	return [][2]string{{"tls-cert-file", cert}, {"tls-key-file", key}, {"tls-ca-cert-file", authority.File}, {"tls-auth-clients", "yes"}}
}

func needTLS(tb testing.TB) {
	tb.Helper()
	needBinary(tb, "redis-server")
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
