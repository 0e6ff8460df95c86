package coordinator

import (
	"strconv"
	"strings"
	"time"
)

// sightings are what this node has seen of the leases in one list of nodes. They go by this
// node's own clock, so that members keep their grace however Redis' clock is set, and also
// when all nodes were away for longer.
type sightings struct {
	list string              // its key
	seen map[string]sighting // by node
}

// sighting is a lease as it was seen for the first time.
type sighting struct {
	lease   string // empty: there was none
	since   time.Time
	ttl     time.Duration // how long it may go unchanged
	grace   time.Duration // of the node's members after that
	address string        // of the node; empty if it has none
}

// saw records what a node's lease is now, and returns when its members are to be removed
// if that does not change.
func (v *sightings) saw(node, lease string, now time.Time, opts Options) time.Time {
	s, known := v.seen[node]
	if !known || s.lease != lease {
		if !known {
			s.grace = opts.Grace
		}
		s.lease, s.since, s.ttl = lease, now, 0
		switch ttl, grace, address, ok := parseLease(lease); {
		case ok:
			s.ttl, s.grace, s.address = ttl, grace, address
		case lease != "":
			s.ttl = opts.NodeTTL
		}
		v.seen[node] = s
	}
	return s.since.Add(s.ttl + s.grace)
}

// parseLease reads "<beat> <TTL> <grace> <address>". Older versions write no address.
func parseLease(lease string) (ttl, grace time.Duration, address string, ok bool) {
	parts := append(strings.SplitN(lease, " ", 4), "")
	if len(parts) < 4 {
		return 0, 0, "", false
	}
	var ms [3]int64
	for i := range ms {
		var err error
		if ms[i], err = strconv.ParseInt(parts[i], 10, 64); err != nil {
			return 0, 0, "", false
		}
	}
	return time.Duration(ms[1]) * time.Millisecond, time.Duration(ms[2]) * time.Millisecond, parts[3], true
}
