package transport

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/transport/protocol"
)

// dialLocal connects from a local address, and with an X-Forwarded-For if that is not "".
func (s *testNode) dialLocal(t *testing.T, address, forwarded string) (*websocket.Conn, *http.Response, error) {
	t.Helper()
	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	dialer := websocket.Dialer{NetDialContext: from.DialContext, HandshakeTimeout: testTimeout}
	header := http.Header{}
	if forwarded != "" {
		header.Set(forwardedFor, forwarded)
	}
	ws, res, err := dialer.Dial("ws://"+s.addr+"/ws?user=a", header)
	if errors.Is(err, syscall.EADDRNOTAVAIL) && os.Getenv("CI") == "" {
		t.Skipf("this machine has no address %s", address)
	}
	return ws, res, err
}

// admits expects that a connection from there is accepted, and returns it.
func (s *testNode) admits(t *testing.T, address, forwarded string) *websocket.Conn {
	t.Helper()
	ws, _, err := s.dialLocal(t, address, forwarded)
	redistest.FatalIf(t, err != nil, "from %s for %q: %v", address, forwarded, err)
	t.Cleanup(func() { _ = ws.Close() })
	return ws
}

// refuses expects that a connection from there gets 429.
func (s *testNode) refuses(t *testing.T, address, forwarded string) {
	t.Helper()
	ws, res, err := s.dialLocal(t, address, forwarded)
	if err == nil {
		_ = ws.Close()
		t.Fatalf("from %s for %q: accepted", address, forwarded)
	}
	redistest.FatalIf(t, res == nil, "%v", err)
	var body struct{ Error protocol.Error }
	text, _ := io.ReadAll(res.Body)
	if json.Unmarshal(text, &body) != nil || res.StatusCode != http.StatusTooManyRequests || res.Header.Get("Retry-After") != retryAfter ||
		body.Error.Code != protocol.CodeRateLimited || !body.Error.Retry {
		t.Fatalf("from %s for %q: %d, Retry-After %q, %s", address, forwarded, res.StatusCode, res.Header.Get("Retry-After"), text)
	}
}

func TestLimits_Address(t *testing.T) {
	var limits tracedLimits
	var log lockedBuffer
	s := serve(t, sizedRooms{}, Options{MaxPerAddress: 2, Trace: limits.trace(), Log: slog.New(slog.NewTextHandler(&log, nil))})
	first := s.admits(t, "127.0.0.1", "")
	removed := s.onlyConn(t).removed
	s.admits(t, "127.0.0.1", "")
	s.refuses(t, "127.0.0.1", "")
	s.refuses(t, "127.0.0.1", "198.51.100.1") // believes nobody
	s.admits(t, "127.0.0.2", "")
	redistest.Equal(t, "traced:", limits.names(), LimitAddress)
	if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "--trust-proxy") || !strings.Contains(text, "127.0.0.1/32") {
		t.Errorf("logged: %s", text)
	}
	_ = first.Close()
	redistest.Receive(t, removed, "the end of a connection")
	s.admits(t, "127.0.0.1", "")
	s.refuses(t, "127.0.0.1", "")
}

func TestLimits_Proxy(t *testing.T) {
	s := serve(t, sizedRooms{}, Options{MaxPerAddress: 1, TrustProxy: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}})
	s.admits(t, "127.0.0.1", "198.51.100.1")
	s.refuses(t, "127.0.0.1", "198.51.100.1")
	s.refuses(t, "127.0.0.1", "203.0.113.99, 198.51.100.1")
	s.admits(t, "127.0.0.1", "198.51.100.2")
	s.admits(t, "127.0.0.1", "2001:db8:0:1::5")
	s.refuses(t, "127.0.0.1", "2001:db8:0:1:ffff::6")
	s.admits(t, "127.0.0.1", "2001:db8:0:2::5")
	s.admits(t, "127.0.0.1", "") // the proxy itself
	s.refuses(t, "127.0.0.1", "unknown")
	s.admits(t, "127.0.0.2", "198.51.100.1") // is no proxy
	s.refuses(t, "127.0.0.2", "198.51.100.7")
}

// No place is lost, however a connection ends, and the map of addresses shrinks.
func TestLimits_AddressesForgotten(t *testing.T) {
	s := serve(t, sizedRooms{}, Options{MaxPerAddress: 20, TrustProxy: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			for j := range 10 {
				if ws, _, err := s.dialLocal(t, "127.0.0.1", fmt.Sprintf("198.51.100.%d", j)); err == nil {
					if i%2 == 0 {
						_ = ws.WriteControl(websocket.CloseMessage, nil, time.Now().Add(testTimeout))
					}
					_ = ws.Close()
				} else {
					t.Error(err)
				}
				// A handshake that fails after the place was taken.
				req, _ := http.NewRequest("GET", "http://"+s.addr+"/ws?user=a", nil)
				req.Header.Set(forwardedFor, fmt.Sprintf("198.51.100.%d", j))
				res, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Error(err)
					return
				}
				_ = res.Body.Close()
			}
		})
	}
	wg.Wait()
	http.DefaultClient.CloseIdleConnections()
	_ = s.Shutdown(t.Context()) // waits for all
	s.conns.mu.Lock()
	defer s.conns.mu.Unlock()
	redistest.ErrorIf(t, len(s.conns.networks) != 0, "addresses without connections: %v", s.conns.networks)
}

// A request may be exactly as long as the limit.
func TestLimits_Frame(t *testing.T) {
	var limits tracedLimits
	s := serve(t, sizedRooms{}, Options{MaxFrame: 2000, Trace: limits.trace()})
	for size, want := range map[int]string{2000: "1 close 1000", 2001: "too_large close 1009"} {
		c := s.connectRaw(t)
		c.write(text(padded(1, size)), closing(1000, ""))
		got := c.readAll()
		redistest.ErrorIf(t, got != want, "%d bytes: got %q, want %q", size, got, want)
		_ = c.raw.Close()
	}
	redistest.Equal(t, "traced:", limits.names(), LimitFrame)
}

// Other limits are traced, too.
func TestLimits_Traced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var limits tracedLimits
		s := start(t, room.Rules{Seating: room.Capacity(1)}, Options{MaxRooms: 1, Trace: limits.trace()})
		a, b := s.connect(t, "a"), s.connect(t, "b")
		a.send(`{"id":1,"action":"join","room":"1"}`)
		synctest.Wait()
		b.send(`{"id":1,"action":"join","room":"1"}`)
		b.expect(`{"id":1,"room":"1","error":{"code":"room_full","message":"room 1 is full: 1 of 1 seats taken","retry":false}}`)
		a.send(`{"id":1,"action":"watch","room":"2"}`)
		synctest.Wait()
		redistest.Equal(t, "traced:", limits.names(), "members rooms")
	})
}
