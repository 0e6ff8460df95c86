package bench

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
)

const headerTimeout = 10 * time.Second

// echo is the smallest possible WebSocket server, for comparison: it sends each message back.
type echo struct {
	listener net.Listener
	http     *http.Server
	open     atomic.Int64
	running  sync.WaitGroup // the listening goroutine, and connections
}

func openEcho(context.Context, serverConfig) (server, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	e := &echo{listener: listener}
	e.http = &http.Server{Handler: http.HandlerFunc(e.serve), ReadHeaderTimeout: headerTimeout}
	e.running.Go(func() { _ = e.http.Serve(listener) })
	return e, nil
}

func (e *echo) serve(w http.ResponseWriter, r *http.Request) {
	e.running.Add(1)
	defer e.running.Done()
	ws, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
	if err != nil {
		return
	}
	defer ws.Close()
	e.open.Add(1)
	defer e.open.Add(-1)
	for {
		kind, frame, err := ws.ReadMessage()
		if err != nil {
			return
		}
		if err := ws.WriteMessage(kind, frame); err != nil {
			return
		}
	}
}

func (e *echo) URL() string { return "ws://" + e.listener.Addr().String() }

func (e *echo) Connections() int { return int(e.open.Load()) }

// Close returns when all connections have ended. Their clients must close them first.
func (e *echo) Close() {
	_ = e.http.Close()
	e.running.Wait()
}
