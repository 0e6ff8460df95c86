package bench

import (
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

const echoHeaderTimeout = 10 * time.Second

// echoServer is the smallest possible WebSocket server.
type echoServer struct {
	listener net.Listener
	http     *http.Server
	running  sync.WaitGroup // the listening goroutine, and connections
}

func startEcho() (*echoServer, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	e := &echoServer{listener: listener}
	e.http = &http.Server{Handler: http.HandlerFunc(e.serve), ReadHeaderTimeout: echoHeaderTimeout}
	e.running.Go(func() { _ = e.http.Serve(listener) })
	return e, nil
}

func (e *echoServer) serve(w http.ResponseWriter, r *http.Request) {
	e.running.Add(1)
	defer e.running.Done()
	ws, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
	if err != nil {
		return
	}
	defer ws.Close()
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

func (e *echoServer) url() string { return "ws://" + e.listener.Addr().String() }

// close returns when all connections have ended. Their clients must close them before.
func (e *echoServer) close() {
	_ = e.http.Close()
	e.running.Wait()
}
