package lockmgr

import (
	"strconv"
	"strings"
	"time"
)

// grant is a hold that begins.
type grant struct {
	fence int64
	since time.Time     // not after Redis gave it; carries a monotonic reading
	lasts time.Duration // from since
}

// left returns how much longer the hold can be trusted.
func (g *grant) left() time.Duration { return g.lasts - time.Since(g.since) }

// over reports whether the hold has ended before anybody had it: its reply, or its
// wake-up, was under way for too long.
func (g *grant) over() bool { return g.left() <= 0 }

// wakeUp says whose turn it is, as line.offer publishes it: "<fence> <ms> <token>".
type wakeUp struct {
	fence int64
	claim time.Duration // for which whoever gave the lock keeps it for the token
	token string
}

func parseWakeUp(payload string) (w wakeUp, ok bool) {
	fence, rest, _ := strings.Cut(payload, " ")
	claim, token, ok := strings.Cut(rest, " ")
	if !ok {
		return wakeUp{}, false
	}
	fenceNumber, err1 := strconv.ParseInt(fence, 10, 64)
	ms, err2 := strconv.ParseInt(claim, 10, 32)
	if err1 != nil || err2 != nil || ms <= 0 {
		return wakeUp{}, false
	}
	return wakeUp{fenceNumber, time.Duration(ms) * time.Millisecond, token}, true
}

// parseNumber reads what lock_number or line.queue returned; 0 if that is no number.
func parseNumber(reply any) int64 {
	text, _ := reply.(string)
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	place, _ := strconv.ParseFloat(text, 64) // a sorted set's score may be written so
	return int64(place)
}
