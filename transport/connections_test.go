package transport

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"roomd/lockmgr/redistest"
	"roomd/transport/protocol"
)

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
