package redisurl

import (
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"

	"roomd/lockmgr/redistest"
	"roomd/lockmgr/redistest/certs"
)

// listenTLS returns the address of a server that shakes hands and then hangs up.
func listenTLS(t *testing.T) string {
	t.Helper()
	cert, err := tls.LoadX509KeyPair(certs.New(t).Issue("redis"))
	redistest.OK(t, err)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}})
	redistest.OK(t, err)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				_ = c.(*tls.Conn).Handshake()
				_ = c.Close()
			})
		}
	})
	t.Cleanup(func() { l.Close(); wg.Wait() })
	return l.Addr().String()
}

// Explain says so if only one side speaks TLS.
func TestExplainTLS(t *testing.T) {
	t.Parallel()
	plain := strings.TrimPrefix(redistest.Start(t).URL(), "redis://")
	locked := strings.TrimPrefix(redistest.Start(t, "--requirepass", "secret").URL(), "redis://")
	secure := listenTLS(t)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	redistest.OK(t, err)
	nobody := closed.Addr().String()
	closed.Close()
	why := errors.New("nothing comes")
	for url, want := range map[string]string{
		"rediss://" + plain:                        plain + " does not speak TLS",
		"rediss://" + locked:                       locked + " does not speak TLS",
		"rediss+cluster://" + nobody + "," + plain: plain + " does not speak TLS",
		"rediss+sentinel://" + plain + "/m":        plain + " does not speak TLS",
		"redis://" + secure:                        secure + " speaks TLS",
		"redis+cluster://" + nobody + "," + secure: secure + " speaks TLS",
		"redis+sentinel://" + secure + "/m":        secure + " speaks TLS",
		"redis://" + plain:                         "",
		"rediss://" + secure:                       "",
		"redis://" + nobody:                        "",
		"rediss://" + nobody:                       "",
		"unix:///nowhere":                          "",
		Embedded:                                   "",
	} {
		db := mustOpen(t, url)
		got := db.Explain(t.Context(), why)
		redistest.ErrorIf(t, !errors.Is(got, why) || want == "" && got != why || !strings.Contains(got.Error(), want),
			"%s: %v, want %q", url, got, want)
		db.Close()
	}
}
