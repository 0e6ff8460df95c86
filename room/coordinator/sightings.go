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

	peers *peers // is told of nodes that are new
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
		switch l, ok := parseLease(lease); {
		case ok:
			s.ttl, s.grace, s.address = l.settings.NodeTTL, l.settings.Grace, l.address
			if !known {
				v.peers.met(node, l)
			}
		case lease != "":
			s.ttl = opts.NodeTTL
		}
		v.seen[node] = s
	}
	return s.since.Add(s.ttl + s.grace)
}

// leaseContent is what a lease says of its node.
type leaseContent struct {
	settings NodeSettings
	address  string // empty if the node has none
}

// parseLease reads "<beat> <TTL> <grace> <address> <settings>". Older versions write no settings,
// or neither.
func parseLease(lease string) (l leaseContent, ok bool) {
	parts := append(strings.SplitN(lease, " ", 5), "", "")
	if len(parts) < 5 {
		return l, false
	}
	var ms [3]int64
	for i := range ms {
		var err error
		if ms[i], err = strconv.ParseInt(parts[i], 10, 64); err != nil {
			return l, false
		}
	}
	l.address, l.settings = parts[3], parseSettings(parts[4])
	l.settings.NodeTTL, l.settings.Grace = time.Duration(ms[1])*time.Millisecond, time.Duration(ms[2])*time.Millisecond
	return l, true
}
