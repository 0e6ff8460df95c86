package bench

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/gorilla/websocket"

	"roomd/loadtest/bench/worker"
)

// Servers with a fault, which the bench must find.
const (
	dropping = "dropping" // cuts off each third client
	leaking  = "leaking"  // keeps a MiB of each client
)

// brokenKinds are those servers. A child of a test can be one of them.
var brokenKinds = []worker.Kind{
	brokenKind(dropping, func(b *broken, n int64, ws *websocket.Conn) {
		if n%3 == 0 {
			_ = ws.Close()
		}
	}),
	brokenKind(leaking, func(b *broken, _ int64, _ *websocket.Conn) {
		block := make([]byte, 1<<20)
		for i := range block {
			block[i] = 1 // so that it is resident
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.leaks = append(b.leaks, block)
	}),
}

// brokenKind is a server that answers each request as if it were done, and does something wrong to
// each client that connects.
func brokenKind(name string, wrong func(b *broken, n int64, ws *websocket.Conn)) worker.Kind {
	return worker.Kind{Name: name, Open: func(context.Context, worker.ServerConfig) (worker.Service, error) {
		b := &broken{wrong: wrong}
		b.http = httptest.NewServer(b)
		return b, nil
	}}
}

type broken struct {
	wrong     func(*broken, int64, *websocket.Conn)
	http      *httptest.Server
	all, open atomic.Int64

	mu    sync.Mutex
	leaks [][]byte // guarded by mu
}

// ServeHTTP serves one client.
func (b *broken) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := b.all.Add(1)
	ws, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
	if err != nil {
		return
	}
	defer ws.Close()
	b.open.Add(1)
	defer b.open.Add(-1)
	b.wrong(b, n, ws)
	for {
		_, request, err := ws.ReadMessage()
		if err != nil {
			return
		}
		id, _, _ := strings.Cut(string(request), ",")
		if err := ws.WriteMessage(websocket.TextMessage, []byte(id+`,"room":"any","version":1,"count":1}`)); err != nil {
			return
		}
	}
}

func (b *broken) URL() string      { return strings.Replace(b.http.URL, "http", "ws", 1) }
func (b *broken) Connections() int { return int(b.open.Load()) }
func (b *broken) Close()           { b.http.Close() }
