package coordinator

// Stats are what a [Coordinator] holds at a moment.
type Stats struct {
	Waiting int // actions that wait for their room's lock
	Busy    int // rooms on which this node works
	Copies  int // rooms that are idle, of which this node keeps a copy
}

// Stats counts. It takes about a millisecond where there are many rooms.
func (c *Coordinator) Stats() Stats {
	busy, idle := c.workers.list()
	s := Stats{Busy: len(busy), Copies: idle}
	for _, w := range busy {
		s.Waiting += w.queue.size()
	}
	return s
}

// list returns the workers that are busy, and how many are idle.
func (ws *workers) list() (busy []*worker, idle int) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	busy = make([]*worker, 0, len(ws.byRoom)-ws.idle.Len())
	for _, w := range ws.byRoom {
		if w.idleAt == nil {
			busy = append(busy, w)
		}
	}
	return busy, ws.idle.Len()
}
