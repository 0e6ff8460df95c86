package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// firstAttacker is the number of the first attacker: no player has it, or its address.
	firstAttacker = 1_000_000

	// redialPause is how long an attacker waits before it connects again. On a loopback there is no
	// round trip, and the attacker would take the processor from the server.
	redialPause = time.Millisecond
)

// AttackConfig says who attacks what.
type AttackConfig struct {
	Name    string // out of Attacks
	Address string
	Room    string // a busy one
}

// Attacked is what attackers did.
type Attacked struct {
	Connections int64            // that they opened, or tried to
	Written     int64            // bytes
	Ended       map[string]int64 // connections that the server ended or refused, by how it did it
}

// Attack is attackers in a process of their own.
type Attack struct{ process *process }

// StartAttack starts an attack, and returns when that is under way.
func StartAttack(ctx context.Context, cfg AttackConfig) (*Attack, error) {
	p, err := launch(ctx)
	if err != nil {
		return nil, err
	}
	a := &Attack{p}
	if err := p.call(ctx, "Attack.Start", cfg, new(int)); err != nil {
		p.close()
		return nil, fmt.Errorf("start an attack: %w", err)
	}
	return a, nil
}

// Stop ends the attack and its process, and returns what the attackers did.
func (a *Attack) Stop(ctx context.Context) (done Attacked, err error) {
	defer a.process.close()
	return done, a.process.call(ctx, "Attack.Stop", 0, &done)
}

// Attacks returns the names of the attacks, in their order.
func Attacks() (names []string) {
	for _, a := range attacks {
		names = append(names, a.name)
	}
	return names
}

// attackChild is the attackers' side of it.
type attackChild struct {
	cfg    AttackConfig
	stop   context.CancelFunc
	ending sync.WaitGroup

	connections, written atomic.Int64

	began chan struct{} // closed when the first attacker has written, or failed
	begin sync.Once
	mu    sync.Mutex
	ended map[string]int64 // guarded by mu
}

// Start starts the attackers.
func (a *attackChild) Start(cfg AttackConfig, _ *int) error {
	i := slices.IndexFunc(attacks, func(kind attack) bool { return kind.name == cfg.Name })
	if i < 0 {
		return fmt.Errorf("there is no attack %q", cfg.Name)
	}
	ctx, stop := context.WithCancel(context.Background())
	a.cfg, a.stop, a.ended, a.began = cfg, stop, make(map[string]int64), make(chan struct{})
	for n := range attacks[i].attackers {
		a.ending.Go(func() { a.attack(ctx, attacks[i], firstAttacker+n) })
	}
	<-a.began
	return nil
}

// Stop ends the attack.
func (a *attackChild) Stop(_ int, done *Attacked) error {
	if a.stop == nil {
		return errors.New("no attack runs")
	}
	a.stop()
	a.ending.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	*done = Attacked{a.connections.Load(), a.written.Load(), a.ended}
	return nil
}

// attack attacks over one connection after the other.
func (a *attackChild) attack(ctx context.Context, kind attack, i int) {
	for ctx.Err() == nil {
		a.connections.Add(1)
		connected, disconnect := context.WithCancel(ctx)
		err := kind.run(connected, a, i)
		disconnect()
		if ctx.Err() != nil {
			return
		}
		a.count(err)
		time.Sleep(redialPause)
	}
}

func (a *attackChild) count(err error) {
	how := err.Error()
	var errno syscall.Errno
	if errors.As(err, &errno) {
		how = errno.Error() // without the ports, which are all different
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended[how]++
	a.begin.Do(func() { close(a.began) })
}

// open connects an attacker as a client of the server. The end of ctx closes the connection.
func (a *attackChild) open(ctx context.Context, i int) (*wire, error) {
	w, err := dial(ctx, a.cfg.Address, fmt.Sprintf("attacker-%d", i), i)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { _ = w.Close() })
	return w, nil
}

// write writes, and counts what was written.
func (a *attackChild) write(w interface{ Write([]byte) (int, error) }, data []byte) error {
	n, err := w.Write(data)
	a.written.Add(int64(n))
	a.begin.Do(func() { close(a.began) })
	return err
}
