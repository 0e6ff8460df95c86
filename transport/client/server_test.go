package client

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/gorilla/websocket"

	"roomd/lockmgr/redistest"
	"roomd/transport/protocol"
)

// server is the far end of one connection, driven by a test's script.
type server struct {
	t *testing.T
	*websocket.Conn
	http *http.Request
}

// handler upgrades each connection and runs script on it.
func handler(t *testing.T, script func(*server)) http.HandlerFunc {
	upgrader := websocket.Upgrader{Subprotocols: []string{protocol.Subprotocol}}
	return func(w http.ResponseWriter, r *http.Request) {
		conn, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			t.Errorf("server: upgrade: %v", err)
			return
		}
		defer conn.Close()
		script(&server{t: t, Conn: conn, http: r})
	}
}

// serve starts an HTTP server that ends, scripts included, with the test, and returns its address.
func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	var scripts sync.WaitGroup
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scripts.Add(1)
		defer scripts.Done()
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		s.Close()
		scripts.Wait()
	})
	return "ws" + strings.TrimPrefix(s.URL, "http")
}

// dialScript connects a client to a server that runs script.
func dialScript(t *testing.T, opts Options, script func(*server)) *Conn {
	t.Helper()
	c, err := Dial(t.Context(), serve(t, handler(t, script)), opts)
	redistest.OK(t, err)
	t.Cleanup(c.Close)
	return c
}

// next returns the client's next request, or ok=false when it has closed.
func (s *server) next() (req protocol.Request, ok bool) {
	_, data, err := s.ReadMessage()
	if err != nil {
		return req, false
	}
	req, bad := protocol.DecodeRequest(data)
	if bad != nil {
		s.t.Errorf("server: frame %s: %v", data, bad)
		return req, false
	}
	return req, true
}

func (s *server) send(format string, args ...any) {
	redistest.OK(s.t, s.WriteMessage(websocket.TextMessage, fmt.Appendf(nil, format, args...)))
}

func (s *server) close(code int, text string) {
	redistest.OK(s.t, s.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(code, text)))
}

// drain reads until the client has closed.
func (s *server) drain() {
	for {
		if _, _, err := s.ReadMessage(); err != nil {
			return
		}
	}
}

// echo answers every request with its room as epoch.
func echo(s *server) {
	for req, ok := s.next(); ok; req, ok = s.next() {
		s.send(`{"id":%d,"room":%q,"epoch":"of %s","version":1,"count":0}`, req.ID, req.Room, req.Room)
	}
}

// inMemory connects a client to a server that runs script, without sockets, so that it can be
// called in a synctest bubble. The connection holds no bytes: a write waits for its reader.
func inMemory(t *testing.T, opts Options, script func(*server)) *Conn {
	t.Helper()
	c, err := newCast(t, script).dial(t.Context(), "ws://memory", opts)
	redistest.OK(t, err)
	return c
}
