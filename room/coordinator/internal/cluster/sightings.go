package cluster

import (
	"slices"
	"time"
)

// sightings are what this node has seen of the leases in one list of nodes. They go by this
// node's own clock, so that members keep their grace however Redis' clock is set, and also
// when all nodes were away for longer.
type sightings struct {
	list   string              // its key
	seen   map[string]sighting // by node
	looked time.Time           // when the leases were last read; zero if this node has lost its own since

	kept  func() []string // see Node.KeptNames
	peers *peers          // is told of nodes that are new
}

// sighting is a lease as it was seen for the first time.
type sighting struct {
	lease   string // empty: there was none
	since   time.Time
	ttl     time.Duration // how long it may go unchanged
	grace   time.Duration // of the node's members after that
	address string        // of the node; empty if it has none
	own     bool          // it is this node's, under the name that it has, or had

	dead  time.Time // when the node counts as dead, unless it prolongs its lease before
	shown bool      // its members are shown as away
}

// look forgets nodes that are not listed any more. Who could not read the leases for so long that a
// living node may have lost its own gives them all time to prolong; who has lost its own lease, as all do when Redis was
// away or took no writes, gives their members the grace after that, too.
func (v *sightings) look(leases map[string]string, now time.Time, all Settings) {
	lost, blind := v.looked.IsZero(), now.Sub(v.looked) > all.NodeTTL
	v.looked = now
	for node, s := range v.seen {
		lease, listed := leases[node]
		if !listed {
			delete(v.seen, node)
			continue
		}
		if blind && !s.shown {
			s.dead = now.Add(all.NodeTTL)
		}
		if lost {
			s.since = now
			if !s.shown {
				s.lease, s.ttl = lease, all.NodeTTL
			}
		}
		v.seen[node] = s
	}
}

// saw records what a node's lease is now, and returns when its members are to be removed
// if that does not change.
func (v *sightings) saw(node, lease string, now time.Time, all Settings) time.Time {
	s, known := v.seen[node]
	if !known || s.lease != lease {
		if !known {
			s.grace, s.dead, s.own = all.Grace, now.Add(all.NodeTTL), slices.Contains(v.kept(), node)
		}
		s.lease, s.since, s.ttl = lease, now, 0
		switch l, ok := ParseLease(lease); {
		case ok:
			s.ttl, s.grace, s.address = l.Settings.NodeTTL, l.Settings.Grace, l.Address
			if !known {
				v.peers.met(node, l)
			}
		case lease != "":
			s.ttl = all.NodeTTL
		}
		if lease != "" {
			s.dead, s.shown = now.Add(s.ttl), false
		}
		v.seen[node] = s
	}
	return s.since.Add(s.ttl + s.grace)
}
