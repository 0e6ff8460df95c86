package transport

import "context"

// Stats are what a [Server] holds at a moment.
type Stats struct {
	Connections     int // open WebSockets
	Unauthenticated int // of those: that have shown no token yet
	Rooms           int // that have members or watchers among the connections
	Members         int // seats of the connections' users; a user in two rooms counts twice
	Watchers        int // watches of connections; a member who watches counts in both
	Graces          int // ended sessions whose users keep their seats
	Queued          int // bytes that wait for the connections' clients, without snapshots
	MostQueued      int // of those: for one connection
}

// Stats counts. With 50,000 connections it takes some milliseconds, in which connections come
// and go as usual.
func (s *Server) Stats() Stats {
	conns, unauthenticated := s.conns.list()
	stats := Stats{Connections: len(conns), Unauthenticated: unauthenticated, Graces: s.disconnectTimers.count()}
	rooms := make(map[string]struct{})
	for _, c := range conns {
		c.session.countInto(&stats, rooms)
		kept := c.session.out.Kept()
		stats.Queued, stats.MostQueued = stats.Queued+kept, max(stats.MostQueued, kept)
	}
	stats.Rooms = len(rooms)
	return stats
}

// countInto adds the rooms of a session.
func (s *session) countInto(stats *Stats, rooms map[string]struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, p := range s.presences {
		if p.membership.Status.IsMember() {
			stats.Members++
		}
		if p.watch.on {
			stats.Watchers++
		}
		if p.needsEvents() {
			rooms[id] = struct{}{}
		}
	}
}

// Draining reports whether the server is about to end: Retire or Shutdown was called.
func (s *Server) Draining() bool { return s.retired.Load() || s.conns.isDraining() }

// Ready reports whether new clients should come to this server: it does not drain, and Redis
// answers. Otherwise the error says why not.
func (s *Server) Ready(ctx context.Context) error {
	if s.Draining() {
		return errDraining
	}
	return s.rooms.Ready(ctx)
}
