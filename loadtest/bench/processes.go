package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"roomd/loadtest/bench/worker"
	"roomd/loadtest/internal/process"
	"roomd/loadtest/internal/tally"
	"roomd/lockmgr/redisconn/pause"
)

const (
	defaultConnections = 10_000

	roomSize    = 10 // clients of a room, in the workloads with processes of their own
	swarmSize   = 2500
	minWarm     = 64 // clients who warm a server up
	warmDivisor = 10 // of all

	settleTimeout = 15 * time.Second
	settlePause   = 100 * time.Millisecond
)

// processes is a server and its clients, each in processes of their own.
type processes struct {
	server *worker.Server
	swarms []*worker.Swarm
	prefix string // of rooms
}

// openProcesses starts a server, and as many processes as that many clients need.
func (b *bench) openProcesses(ctx context.Context, kind, prefix string, clients int) (_ *processes, err error) {
	p := &processes{prefix: prefix}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	p.server, err = worker.StartServer(ctx, worker.ServerConfig{Kind: kind, Redis: b.redis.URL(), Name: prefix + "node"})
	if err != nil {
		return nil, err
	}
	for range max(2, (clients+swarmSize-1)/swarmSize) {
		s, err := worker.StartSwarm(ctx)
		if err != nil {
			return nil, err
		}
		p.swarms = append(p.swarms, s)
	}
	return p, nil
}

func (p *processes) close() {
	var all errgroup.Group
	for _, s := range p.swarms {
		all.Go(func() error { s.Close(); return nil })
	}
	_ = all.Wait()
	if p.server != nil {
		p.server.Close()
	}
}

// connect connects that many clients, evenly from all processes. The first has the number first.
func (p *processes) connect(ctx context.Context, first, clients int, cfg worker.ConnectConfig) (*tally.Tally, error) {
	return p.each(func(i int, s *worker.Swarm) (*tally.Tally, error) {
		from, to := i*clients/len(p.swarms), (i+1)*clients/len(p.swarms)
		cfg := cfg
		cfg.Address, cfg.Room, cfg.RoomSize = p.server.URL, p.prefix, roomSize
		cfg.First, cfg.N = first+from, to-from
		return s.Connect(ctx, cfg)
	})
}

// leave lets all clients leave and disconnect.
func (p *processes) leave(ctx context.Context) (*tally.Tally, error) {
	return p.each(func(_ int, s *worker.Swarm) (*tally.Tally, error) { return s.Leave(ctx) })
}

// each asks all processes at the same time, and sums up their answers.
func (p *processes) each(ask func(int, *worker.Swarm) (*tally.Tally, error)) (_ *tally.Tally, err error) {
	var all errgroup.Group
	answers := make([]*tally.Tally, len(p.swarms))
	for i, s := range p.swarms {
		all.Go(func() (err error) {
			answers[i], err = ask(i, s)
			return err
		})
	}
	err = all.Wait()
	return tally.Sum(answers...), err
}

// warm lets some clients come and go, so that what a server needs once, such as
// its connections to Redis, is there already. It returns what the server uses then.
func (p *processes) warm(ctx context.Context, clients int, join bool) (m worker.Memory, err error) {
	clients = min(clients, max(minWarm, clients/warmDivisor))
	_, err = p.connect(ctx, 0, clients, worker.ConnectConfig{Join: join}) // who fails there fails later, too
	if err == nil {
		_, err = p.leave(ctx)
	}
	if err == nil {
		m, err = p.settle(ctx)
	}
	if err != nil {
		return m, err
	}
	return p.server.Memory(ctx, true)
}

// settle waits until the number of the server's goroutines stays the same, but not for ever, and
// returns what the server uses then.
func (p *processes) settle(ctx context.Context) (m worker.Memory, err error) {
	deadline := time.Now().Add(settleTimeout)
	for last, same := -1, 0; ; last = m.Goroutines {
		if m, err = p.server.Memory(ctx, false); err != nil {
			return m, err
		}
		if same++; m.Goroutines != last {
			same = 0
		}
		if same == 3 || time.Now().After(deadline) {
			return m, nil
		}
		if err := pause.For(ctx, settlePause); err != nil {
			return m, err
		}
	}
}

// affordable returns how many clients a server may have whose process may open that many files; 0
// files stands for any number. A node keeps one file in eight, up to 1,024, for itself, and as many
// for connections that are no WebSockets.
func affordable(clients, files int) int {
	if files == 0 {
		return clients
	}
	return max(1, min(clients, files-2*max(128, min(files/8, 1024))))
}

// afford returns how many of the wanted clients the limit on open files allows, and says so if it
// is fewer.
func (b *bench) afford() int {
	n := affordable(b.connections, process.MaxFiles())
	if n < b.connections {
		fmt.Fprintf(b.log, "the limit of %d open files (ulimit -n) allows %d connections instead of %d\n", process.MaxFiles(), n, b.connections)
	}
	return n
}

// tell returns in words what became of clients, except of those that did it.
func tell(t *tally.Tally) string {
	_, failures := t.Errors()
	return kinds(t.Refusals(), failures)
}

// kinds returns counts by kind in words.
func kinds(all ...map[string]int64) string {
	var texts []string
	for _, of := range all {
		for kind, n := range of {
			texts = append(texts, fmt.Sprintf("%d× %s", n, kind))
		}
	}
	slices.Sort(texts)
	return strings.Join(texts, ", ")
}
