package lockmgr

import (
	"strconv"
	"strings"
	"time"
)

// offer is a wake-up as it travels on the channel: whose turn it is.
type offer struct {
	fence int64
	at    int64 // when the lock was kept for the token, by the server's clock in microseconds
	token string
}

// parseOffer reads what lock_offer publishes: "<fence> <microseconds> <token>".
func parseOffer(payload string) (o offer, ok bool) {
	fence, rest, _ := strings.Cut(payload, " ")
	at, token, ok := strings.Cut(rest, " ")
	if !ok {
		return offer{}, false
	}
	var err1, err2 error
	o.fence, err1 = strconv.ParseInt(fence, 10, 64)
	o.at, err2 = strconv.ParseInt(at, 10, 64)
	o.token = token
	return o, err1 == nil && err2 == nil
}

// moment ties the server's clock to ours: the server's was read after ours. So what
// it says of a later reading is never later than the truth, and a deadline that is
// counted from there is safe, however long a message was under way. It needs the
// two clocks to run at the same pace, as the TTL itself does.
type moment struct {
	sent time.Time // carries a monotonic reading
	at   int64     // the server's clock in microseconds; 0 means that nothing is known
}

// local returns a time of ours that is not after the given one of the server's.
func (m moment) local(at int64) (t time.Time, known bool) {
	return m.sent.Add(time.Duration(at-m.at) * time.Microsecond), m.at != 0
}

// better returns the moment that comes closer to the truth.
func (m moment) better(other moment) moment {
	if t, known := m.local(other.at); known && t.After(other.sent) {
		return m
	}
	return other
}
