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
	"roomd/transport/internal/pending"
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
	var log redistest.Log
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

func TestAddress_OfClient(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8"), netip.MustParsePrefix("192.0.2.7/32")}
	for _, tt := range []struct {
		about, peer string
		header      []string
		want        string
	}{
		{"a client of its own", "203.0.113.5:4711", nil, "203.0.113.5"},
		{"a client that lies", "203.0.113.5:4711", []string{"198.51.100.1"}, "203.0.113.5"},
		{"a client that claims to be a proxy", "203.0.113.5:4711", []string{"198.51.100.1, 10.0.0.1"}, "203.0.113.5"},
		{"beside the trusted one", "192.0.2.8:1", []string{"198.51.100.1"}, "192.0.2.8"},
		{"a proxy", "10.1.2.3:80", []string{"198.51.100.1"}, "198.51.100.1"},
		{"a proxy that is one address", "192.0.2.7:80", []string{"198.51.100.1"}, "198.51.100.1"},
		{"a proxy without a header", "10.1.2.3:80", nil, "10.1.2.3"},
		{"a proxy with an empty header", "10.1.2.3:80", []string{"", " , ,"}, "10.1.2.3"},
		{"two proxies", "10.1.2.3:80", []string{"198.51.100.1, 10.9.9.9"}, "198.51.100.1"},
		{"two proxies, two lines", "10.1.2.3:80", []string{"198.51.100.1", "10.9.9.9"}, "198.51.100.1"},
		{"what the client made up stands to the left", "10.1.2.3:80", []string{"127.0.0.1, 8.8.8.8, 198.51.100.1"}, "198.51.100.1"},
		{"made up in a line of its own", "10.1.2.3:80", []string{"127.0.0.1", "198.51.100.1"}, "198.51.100.1"},
		{"made up to look like a chain of ours", "10.1.2.3:80", []string{"6.6.6.6, 10.0.0.1, 10.0.0.2", "198.51.100.1, 10.9.9.9"}, "198.51.100.1"},
		{"made up, and no address", "10.1.2.3:80", []string{"' or 1=1, \x00, 198.51.100.1"}, "198.51.100.1"},
		{"nothing but proxies", "10.1.2.3:80", []string{"10.0.0.1, 10.0.0.2"}, "10.0.0.1"},
		{"a proxy sends no address", "10.1.2.3:80", []string{"198.51.100.1, unknown"}, "10.1.2.3"},
		{"a proxy's proxy sends no address", "10.1.2.3:80", []string{"198.51.100.1, unix:, 10.9.9.9"}, "10.9.9.9"},
		{"a number is no address", "10.1.2.3:80", []string{"3325256709"}, "10.1.2.3"},
		{"leading zeros", "10.1.2.3:80", []string{"198.51.100.010"}, "10.1.2.3"},
		{"with a port", "10.1.2.3:80", []string{"198.51.100.1:5555"}, "198.51.100.1"},
		{"spaces and empty entries", "10.1.2.3:80", []string{"\t198.51.100.1 ,, 10.0.0.1 , "}, "198.51.100.1"},
		{"IPv6", "[fd00::1]:80", []string{"2001:db8::5"}, "2001:db8::5"},
		{"IPv6 in brackets", "[fd00::1]:80", []string{"[2001:db8::5]"}, "2001:db8::5"},
		{"IPv6 with a port", "[fd00::1]:80", []string{"[2001:db8::5]:1234"}, "2001:db8::5"},
		{"half a bracket", "[fd00::1]:80", []string{"2001:db8::5]"}, "fd00::1"},
		{"IPv4 in IPv6 as proxy", "[::ffff:10.1.2.3]:80", []string{"198.51.100.1"}, "198.51.100.1"},
		{"IPv4 in IPv6 as client", "10.1.2.3:80", []string{"::ffff:198.51.100.1"}, "198.51.100.1"},
		{"IPv4 in IPv6 as second proxy", "10.1.2.3:80", []string{"198.51.100.1, ::ffff:10.0.0.9"}, "198.51.100.1"},
		{"a zone", "[fe80::1%eth0]:80", nil, "fe80::1"},
		{"a zone in the header", "10.1.2.3:80", []string{"fe80::1%" + strings.Repeat("x", 4000)}, "fe80::1"},
		{"a Unix socket", "@", []string{"198.51.100.1"}, "invalid IP"},
		{"no address at all", "", nil, "invalid IP"},
	} {
		r := &http.Request{RemoteAddr: tt.peer, Header: http.Header{forwardedFor: tt.header}}
		got := clientAddress(r, trusted)
		redistest.ErrorIf(t, got.String() != tt.want, "%s: got %v, want %v", tt.about, got, tt.want)
	}
	r := &http.Request{RemoteAddr: "10.1.2.3:80", Header: http.Header{forwardedFor: {"198.51.100.1"}, "Forwarded": {"for=198.51.100.2"}}}
	got := clientAddress(r, nil)
	redistest.ErrorIf(t, got.String() != "10.1.2.3", "nobody is trusted: got %v", got)
	redistest.Equal(t, "logs show", remoteOf(r, clientAddress(r, trusted)), "198.51.100.1")
	redistest.Equal(t, "logs show", remoteOf(r, clientAddress(r, nil)), "10.1.2.3:80")
}

func TestAddress_Network(t *testing.T) {
	for address, want := range map[string]string{
		"198.51.100.1":                 "198.51.100.1/32",
		"::ffff:198.51.100.1":          "198.51.100.1/32",
		"2001:db8:1:2:3:4:5:6":         "2001:db8:1:2::/64",
		"2001:db8:1:2:ffff:ffff::":     "2001:db8:1:2::/64",
		"2001:db8:1:3::":               "2001:db8:1:3::/64",
		"::1":                          "::/64",
		"something that is no address": "invalid Prefix",
	} {
		parsed, _ := parseAddress(address)
		got := pending.Network(parsed).String()
		redistest.ErrorIf(t, got != want, "%s: got %s, want %s", address, got, want)
	}
}

// Whatever a client sends, a proxy that appends its address has the last word.
func FuzzClientAddress(f *testing.F) {
	f.Add("198.51.100.1, 10.0.0.1")
	f.Add(",,unknown,[::1]:80,\x00")
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	f.Fuzz(func(t *testing.T, sent string) {
		r := &http.Request{RemoteAddr: "10.1.2.3:80", Header: http.Header{forwardedFor: {sent, sent + ", 203.0.113.5, 10.0.0.2"}}}
		got := clientAddress(r, trusted)
		redistest.ErrorIf(t, got.String() != "203.0.113.5", "%q makes it %v", sent, got)
	})
}

// Connections without a token take no place from those with one: the oldest of them goes.
func TestConnect_WithoutTokenBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startWithKey(t, Options{MaxConnections: 8})
		first, named := s.dialWith(t, ""), s.dialWith(t, "")
		named.exchange(authFrame(tokenOf(t, "a", time.Hour)), fmt.Sprintf(`{"id":1,"user":"a","expires":%d}`, time.Now().Add(time.Hour).Unix()))
		for range 20 {
			s.dialWith(t, "")
			synctest.Wait()
		}
		if _, _, err := first.ws.ReadMessage(); err == nil || websocket.IsCloseError(err, protocol.CloseUnauthorized) {
			t.Errorf("the oldest connection without a token: %v", err)
		}
		redistest.Equal(t, "connections:", s.Connections(), 1+maxUnauthenticated(8))
		named.exchange(`{"id":2,"action":"users","room":"42"}`, `{"id":2,"room":"42","epoch":"","version":0,"count":0,"users":[]}`)
		s.dialWith(t, tokenOf(t, "b", time.Hour))
	})
}

// proxied is a connection from a proxy.
type proxied struct{ net.Conn }

func (proxied) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 1} }

// dialFrom connects a browser without a token from an address, through a proxy.
func (s *testNode) dialFrom(t *testing.T, address string) *testClient {
	t.Helper()
	header := ofBrowser.Clone()
	header.Set(forwardedFor, address)
	c, _, err := s.dial(t, "/ws", header)
	redistest.FatalIf(t, err != nil, "from %s: %v", address, err)
	return c
}

// login shows a token, and expects that it counts.
func (p *testClient) login(user string) {
	p.t.Helper()
	p.exchange(authFrame(tokenOf(p.t, user, time.Hour)), fmt.Sprintf(`{"id":1,"user":%q,"expires":%d}`, user, time.Now().Add(time.Hour).Unix()))
}

// Who floods the places for logging in takes them from itself, behind a proxy, too.
func TestConnect_OneAddress(t *testing.T) {
	for name, flood := range map[string]func(i int) string{
		"IPv4":            func(int) string { return "198.51.100.1" },
		"an IPv6 network": func(i int) string { return fmt.Sprintf("2001:db8:1:2:%x::1", i) },
	} {
		bubble(t, name, func(t *testing.T) {
			s := startWithKey(t, Options{MaxConnections: 80, TrustProxy: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
			s.pipes.wrap = func(c net.Conn) net.Conn { return proxied{c} }
			for i := range maxUnauthenticated(80) {
				s.dialFrom(t, flood(i))
			}
			var browsers []*testClient
			for i := range 6 {
				browsers = append(browsers, s.dialFrom(t, fmt.Sprintf("198.51.100.%d", 2+i/2)))
				for j := range 20 {
					s.dialFrom(t, flood(100*i+j))
					synctest.Wait()
				}
			}
			for i, b := range browsers {
				b.login(fmt.Sprint("player-", i))
			}
		})
	}
}

// On a full node, those who have shown no token make room: for who has one, and for other addresses.
func TestConnect_FullNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startWithKey(t, Options{MaxConnections: 8, TrustProxy: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
		s.pipes.wrap = func(c net.Conn) net.Conn { return proxied{c} }
		for i := range 5 {
			s.dialWith(t, tokenOf(t, fmt.Sprint("early-", i), time.Hour))
		}
		for range 3 {
			s.dialFrom(t, "198.51.100.1")
		}
		browser := s.dialFrom(t, "198.51.100.2")
		s.dialFrom(t, "198.51.100.1") // takes a place of its own
		s.dialWith(t, tokenOf(t, "late", time.Hour))
		synctest.Wait()
		browser.login("browser")
		s.dialWith(t, tokenOf(t, "later", time.Hour))
		synctest.Wait()
		redistest.Equal(t, "connections:", s.Connections(), 8)
		for _, header := range []string{"", tokenOf(t, "last", time.Hour)} {
			h := ofBrowser.Clone()
			if header != "" {
				h.Set("Authorization", "Bearer "+header)
			}
			_, res, err := s.dial(t, "/ws", h)
			redistest.ErrorIf(t, err == nil || res.StatusCode != 503, "all places are players': %v", err)
		}
	})
}
