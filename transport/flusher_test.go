package transport

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// What a socket does not take at once is written later: a client that begins to read when its socket is full gets
// every frame once and in order, also those that were written together, or in parts.
func TestFlusher_FullSocket(t *testing.T) {
	for range 2 {
		s := serve(t, sizedRooms{}, Options{PingInterval: time.Hour})
		p, c := s.connectSlow(t, 0)
		const most = 3000 // more than the kernels keep
		for n := range most {
			size := 9000 // of which a socket takes a part
			if n%4 > 0 {
				size = 1000
			}
			c.out.Ping(fmt.Appendf([]byte{0x81, 126, byte(size >> 8), byte(size)}, `{"id":%06d,"of":"%0*d"}`, n, size-21, most))
		}
		_ = p.ws.SetReadDeadline(time.Now().Add(testTimeout))
		for n := range most {
			_, frame, err := p.ws.ReadMessage()
			if want := fmt.Sprintf(`{"id":%06d,`, n); err != nil || !strings.HasPrefix(string(frame), want) {
				t.Fatalf("frame %d: %.40s, %v", n, frame, err)
			}
		}
	}
}
