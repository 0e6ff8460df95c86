package node

import (
	"bufio"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"roomd/lockmgr/redisconn/redisurl"
	"roomd/transport"
)

// Who takes too long for a request is counted once, and nobody else is: not who asks in time, nor
// who is silent between two requests.
func TestLateRequestsAreCounted(t *testing.T) {
	t.Parallel()
	var late atomic.Int64
	const timeout = time.Second // long enough for the client who is in time, on a busy machine
	n := start(t, Config{Redis: open(t, redisurl.Embedded), Serve: transport.Options{
		HandshakeTimeout: timeout,
		Trace: &transport.Trace{Refused: func(limit string) {
			if limit == transport.LimitHandshake {
				late.Add(1)
			}
		}},
	}})
	kept := send(t, n, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
	if _, err := bufio.NewReader(kept).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	slow := 0
	for _, text := range []string{"", "GET /ws HTTP/1.1\r\n", "GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"} {
		c := send(t, n, text)
		_, _ = io.Copy(io.Discard, c) // until the node has closed it
		slow++
		if got := late.Load(); got != int64(slow) {
			t.Errorf("%d were counted after %q", got, text)
		}
	}
}
