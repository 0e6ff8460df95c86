package redistest

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"roomd/lockmgr/redistest/certs"
	"roomd/lockmgr/redistest/launch"
)

// StartTLS runs a redis-server as Start does. At addr it speaks TLS with clients that have a certificate of
// authority; Addr and Client still mean the port without TLS. If redis-server was built without TLS, StartTLS
// skips the test, or fails it if CI is set.
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

// StartSentinelTLS runs one sentinel that speaks only TLS and asks for a password. Its primary is the server at
// primary, whose default user has no password. It returns the sentinel's address.
func StartSentinelTLS(tb testing.TB, authority *certs.Authority, primary, password string) (addr string) {
	tb.Helper()
	needTLS(tb)
	host, port, _ := strings.Cut(primary, ":")
	more := []string{"requirepass " + password, "tls-replication yes"}
	for _, option := range tlsOptions(authority) {
		more = append(more, fmt.Sprintf("%s %q", option[0], option[1]))
	}
	return start(tb, launch.Watch(host, port, 1, more...)).Addr()
}

func tlsOptions(authority *certs.Authority) [][2]string {
	cert, key := authority.Issue("redis")
	return [][2]string{{"tls-cert-file", cert}, {"tls-key-file", key}, {"tls-ca-cert-file", authority.File},
		{"tls-auth-clients", "yes"}}
}
