package cluster

import (
	"slices"
	"sync"
	"time"
)

// sightings are this node's observations of the leases in one list. They use this node's own clock, so members keep
// their grace whatever Redis' clock says, even if all nodes were away for longer than the grace.
type sightings struct {
	list   string               // the key of the list
	seen   map[string]*sighting // by node
	looked time.Time            // when the leases were last read and handled; zero after our own lease was lost

	kept  func() []string // see Node.KeptNames
	peers *peers          // gets the leases of new nodes
}

// sighting is a lease, and when it was first seen with this content.
type sighting struct {
	lease   string // empty: there was none
	since   time.Time
	ttl     time.Duration // how long the lease may stay unchanged
	grace   time.Duration // of the node's members once the lease is over
	address string        // of the node; empty if it has none
	own     bool          // it is this node's current or former name

	dead time.Time // when the node counts as dead, unless it prolongs its lease before
	away *sync.Map // by room, when this node showed the members there as away; nil while the lease may be prolonged
}

// left returns when to remove the members of a node that stopped.
func (s *sighting) left() time.Time { return s.since.Add(s.ttl + s.grace) }

// due returns the times at which the node needs attention.
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

// look drops nodes that are no longer listed. If the leases could not be read for so long that living nodes may have
// lost theirs, it gives all nodes time to prolong. If this node has lost its own lease, as all nodes do while Redis
// is away or refuses writes, look also starts the grace of their members again.
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
