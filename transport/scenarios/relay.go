package scenarios

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"

	"github.com/gorilla/websocket"
)

// relay is the network between clients and one node.
type relay struct {
	number int
	node   string // its host:port
	server *httptest.Server
	gone   atomic.Bool // the node cannot be reached
	loses  atomic.Bool // the next event of changes gets lost

	mu    sync.Mutex
	conns []io.Closer // guarded by mu: WebSockets to the node, also closed ones
}

// handshake is a node's answer to a client.
type handshake struct{ relay, status int }

// startRelay starts a relay in front of a node. It tells the handshakes of clients.
func startRelay(number int, node string, tell chan<- handshake) *relay {
	r := &relay{number: number, node: node}
	to := &httputil.ReverseProxy{
		Rewrite: func(pr *httputil.ProxyRequest) { pr.SetURL(&url.URL{Scheme: "http", Host: node}) },
		ModifyResponse: func(answer *http.Response) error {
			if websocket.IsWebSocketUpgrade(answer.Request) {
				tell <- handshake{number, answer.StatusCode}
			}
			if answer.StatusCode == http.StatusSwitchingProtocols {
				answer.Body = r.carry(answer.Body.(io.ReadWriteCloser))
			}
			return nil
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	r.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if r.gone.Load() {
			panic(http.ErrAbortHandler) // without an answer
		}
		to.ServeHTTP(w, req)
	}))
	return r
}

// url returns where clients connect.
func (r *relay) url() string { return "ws" + r.server.URL[len("http"):] + "/ws" }

// cut breaks all connections.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, conn := range r.conns {
		_ = conn.Close()
	}
	r.conns = nil
	r.server.CloseClientConnections()
}

func (r *relay) close() {
	r.cut()
	r.server.Close()
}

// carry returns a WebSocket to the node that loses events when the relay does.
func (r *relay) carry(conn io.ReadWriteCloser) io.ReadWriteCloser {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conns = append(r.conns, conn)
	return &lossy{ReadWriteCloser: conn, from: bufio.NewReader(conn), loses: &r.loses}
}

// lossy is a WebSocket whose reader gets whole frames.
type lossy struct {
	io.ReadWriteCloser
	from  *bufio.Reader
	loses *atomic.Bool
	frame []byte // not read yet
}

func (l *lossy) Read(p []byte) (int, error) {
	for len(l.frame) == 0 {
		frame, err := readFrame(l.from)
		if err != nil {
			return 0, err
		}
		if !bytes.Contains(frame, []byte(`"event":"changes"`)) || !l.loses.CompareAndSwap(true, false) {
			l.frame = frame
		}
	}
	n := copy(p, l.frame)
	l.frame = l.frame[n:]
	return n, nil
}

// readFrame reads a frame of a server, which is not masked (RFC 6455, 5.2).
func readFrame(from *bufio.Reader) ([]byte, error) {
	frame := make([]byte, 2)
	if _, err := io.ReadFull(from, frame); err != nil {
		return nil, err
	}
	size := uint64(frame[1])
	if more := map[uint64]int{126: 2, 127: 8}[size]; more > 0 {
		length := make([]byte, 8)
		if _, err := io.ReadFull(from, length[8-more:]); err != nil {
			return nil, err
		}
		size, frame = binary.BigEndian.Uint64(length), append(frame, length[8-more:]...)
	}
	head := len(frame)
	frame = append(frame, make([]byte, size)...)
	_, err := io.ReadFull(from, frame[head:])
	return frame, err
}
