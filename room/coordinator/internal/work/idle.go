package work

import "time"

const (
	// CopyIdle is how long an idle room's copy is kept.
	CopyIdle = time.Minute

	// EmptyCopySize is the size of a copy without members; each member adds 1.
	EmptyCopySize = 8
)

func (p *Pool) openLocked(id string) (*worker, error) {
	keys := p.store.KeysOf(id)
	slot, err := p.locks.Slot(id, keys.Held...)
	if err != nil {
		return nil, err
	}
	w := &worker{pool: p, id: id, keys: keys, slot: slot, registration: p.Node.Registration(id)}
	w.ask = w.askForLock
	p.byRoom[id] = w
	return w, nil
}

// closeLocked ends an idle worker.
func (p *Pool) closeLocked(w *worker) {
	delete(p.byRoom, w.id)
	w.slot.Close()
	w.copy.Stop()
	w.registration.Close()
}

// sleepLocked makes a worker idle. While the copies are too large it removes the workers that have been idle longest.
func (p *Pool) sleepLocked(w *worker) {
	w.since, w.size = time.Now(), EmptyCopySize
	if w.copy.Room != nil {
		w.size += w.copy.Room.Count()
	}
	w.copy.Release()
	w.idleAt = p.idle.PushBack(w)
	p.copies += w.size
	for p.copies > p.opts.MaxCopies && p.idle.Len() > 0 {
		p.removeLocked(p.idle.Front().Value.(*worker))
	}
	if p.sweeper == nil && p.idle.Len() > 0 && !p.closed {
		p.sweeper = time.AfterFunc(CopyIdle, p.sweep)
	}
}

func (p *Pool) wakeLocked(w *worker) {
	p.idle.Remove(w.idleAt)
	p.copies -= w.size
	w.idleAt = nil
}

func (p *Pool) sweep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sweeper = nil
	for p.idle.Len() > 0 {
		w := p.idle.Front().Value.(*worker)
		if wait := CopyIdle - time.Since(w.since); wait > 0 {
			if !p.closed {
				p.sweeper = time.AfterFunc(wait, p.sweep)
			}
			return
		}
		p.removeLocked(w)
	}
}

// removeLocked ends an idle worker. If the node has no members in its room, the node's records there are deleted.
func (p *Pool) removeLocked(w *worker) {
	p.wakeLocked(w)
	if p.closed {
		return // Close ends the worker
	}
	p.closeLocked(w)
	p.running.Go(func() { _ = p.Node.Reconcile(w.id) }) // after a failure the node tries again
}
