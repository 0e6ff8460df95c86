package cluster

import (
	"slices"
	"sync"
	"time"
)

// sightings are what this node has seen of the leases in one list of nodes. They go by this node's own clock, so that
// members keep their grace however Redis' clock is set, and also when all nodes were away for longer.
type sightings struct {
	list   string               // its key
	seen   map[string]*sighting // by node
	looked time.Time            // when the leases were last read, and what followed was done; zero if this node has lost its own since

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

	dead time.Time // when the node counts as dead, unless it prolongs its lease before
	away *sync.Map // by room since when this node knows that its members there are away; nil while the lease may be prolonged
}

// left returns when who was on the node that stopped is to be removed.
func (s *sighting) left() time.Time { return s.since.Add(s.ttl + s.grace) }

// due returns when there is something to do about the node.
func (s *sighting) due() []time.Time {
	due := []time.Time{s.dead, s.left()}
	if s.away != nil {
		s.away.Range(func(_, since any) bool {
			due = append(due, since.(time.Time).Add(s.grace))
			return true
		})
	}
	return due
}

// look forgets nodes that are not listed any more. Who could not read the leases for so long that a living node may
// have lost its own gives them all time to prolong; who has lost its own lease, as all do when Redis was away or
// took no writes, gives their members the grace after that, too.
func (v *sightings) look(leases map[string]string, now time.Time, all Settings) {
	lost, blind := v.looked.IsZero(), now.Sub(v.looked) > all.NodeTTL
	v.looked = now
	for node, s := range v.seen {
		lease, listed := leases[node]
		switch {
		case !listed:
			delete(v.seen, node)
		case lost:
			s.lease, s.since, s.ttl, s.dead, s.away = lease, now, all.NodeTTL, now.Add(all.NodeTTL), nil
		case blind && s.away == nil:
			s.dead = now.Add(all.NodeTTL)
		}
	}
}

// saw records what a node's lease is now.
func (v *sightings) saw(node, lease string, now time.Time, all Settings) *sighting {
	s, known := v.seen[node]
	if known && s.lease == lease {
		return s
	}
	if !known {
		s = &sighting{grace: all.Grace, dead: now.Add(all.NodeTTL), own: slices.Contains(v.kept(), node)}
		v.seen[node] = s
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
		s.dead, s.away = now.Add(s.ttl), nil
	}
	return s
}
