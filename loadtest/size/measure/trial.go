package measure

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"roomd/loadtest/bench/worker"
	"roomd/loadtest/internal/process"
	"roomd/loadtest/internal/tally"
	"roomd/loadtest/report"
	"roomd/lockmgr/redisconn/pause"
)

const (
	swarms = 2
	first  = 64 // clients who come and go before, so that what a node needs once is there
	warmUp = 1500 * time.Millisecond
	settle = time.Second
)

// trial is nodes, masters and clients, each in processes of their own.
type trial struct {
	setup
	refusable float64 // see Config
	masters   *masters
	nodes     []*worker.Server
	swarms    []*worker.Swarm
}

// setup says what a trial consists of.
type setup struct {
	cluster                 bool
	masters, nodes          int
	players, perRoom        int
	journal, feed, replicas int
	unlimited               bool // clients may act as often as they can
}

func (s setup) String() string {
	kind := "standalone"
	if s.cluster {
		kind = "cluster"
	}
	text := fmt.Sprintf("%s, %d master(s), %d node(s), %d players, rooms of %d", kind, s.masters, s.nodes, s.players, s.perRoom)
	for _, more := range []struct {
		name string
		n    int
	}{{"journal", s.journal}, {"feed", s.feed}, {"replicas", s.replicas}} {
		if more.n > 0 {
			text += fmt.Sprintf(", %s %d", more.name, more.n)
		}
	}
	return text
}

// filesFor returns how many files a node opens for so many players, and what it keeps for itself.
func filesFor(players int) int { return players + players/8 + 1024 }

// openTrial starts servers and nodes, and processes for clients.
func openTrial(ctx context.Context, cfg Config, s setup) (_ *trial, err error) {
	if most := process.MaxFiles(); most > 0 && most < filesFor(s.players) {
		return nil, fmt.Errorf("a process may open %d files, and %d players need %d: raise the limit (ulimit -n)", most, s.players, filesFor(s.players))
	}
	t := &trial{setup: s, refusable: cfg.Refusable}
	defer func() {
		if err != nil {
			t.close()
		}
	}()
	if t.masters, err = startMasters(ctx, s.masters, s.replicas, s.cluster); err != nil {
		return nil, err
	}
	for i := range s.nodes {
		n, err := worker.StartServer(ctx, worker.ServerConfig{
			Kind: worker.Node, Redis: t.masters.url(), Name: fmt.Sprintf("node-%d", i), Journal: s.journal, Feed: s.feed, Replicas: s.replicas, Unlimited: s.unlimited,
		})
		if err != nil {
			return nil, err
		}
		t.nodes = append(t.nodes, n)
	}
	for range swarms {
		w, err := worker.StartSwarm(ctx)
		if err != nil {
			return nil, err
		}
		t.swarms = append(t.swarms, w)
	}
	return t, nil
}

func (t *trial) close() {
	var all errgroup.Group
	for _, s := range t.swarms {
		all.Go(func() error { s.Close(); return nil })
	}
	_ = all.Wait()
	for _, n := range t.nodes {
		all.Go(func() error { n.Close(); return nil })
	}
	_ = all.Wait()
	if t.masters != nil {
		t.masters.close()
	}
}

// connect connects clients with numbers from first on, who are not in their rooms yet.
func (t *trial) connect(ctx context.Context, first, clients int) error {
	var urls []string
	for _, n := range t.nodes {
		urls = append(urls, n.URL)
	}
	return t.all(clients, func(i int, s *worker.Swarm) (*tally.Tally, error) {
		from, to := i*clients/len(t.swarms), (i+1)*clients/len(t.swarms)
		return s.Connect(ctx, worker.ConnectConfig{Addresses: urls, First: first + from, N: to - from, Room: "table-", RoomSize: t.perRoom})
	})
}

// join lets all clients who are connected join their rooms.
func (t *trial) join(ctx context.Context, clients int) error {
	return t.all(clients, func(_ int, s *worker.Swarm) (*tally.Tally, error) { return s.Join(ctx) })
}

// leave lets all clients leave and disconnect.
func (t *trial) leave(ctx context.Context) error {
	return t.all(0, func(_ int, s *worker.Swarm) (*tally.Tally, error) { return s.Leave(ctx) })
}

// all asks all swarms at once, and fails if fewer clients succeeded than wanted.
func (t *trial) all(wanted int, ask func(int, *worker.Swarm) (*tally.Tally, error)) error {
	var group errgroup.Group
	tallies := make([]*tally.Tally, len(t.swarms))
	for i, s := range t.swarms {
		group.Go(func() (err error) {
			tallies[i], err = ask(i, s)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	sum := tally.Sum(tallies...)
	if done := worker.Done(sum); done < wanted {
		_, failures := sum.Errors()
		return fmt.Errorf("%d of %d clients are in: %v %v", done, wanted, sum.Refusals(), failures)
	}
	return nil
}

// reading is what everything has used so far, and has now.
type reading struct {
	at      time.Time
	nodes   float64 // processor time of all, µs
	redis   used
	traffic worker.Traffic
}

// read reads all counters, at about the same instant.
func (t *trial) read(ctx context.Context) (r reading, err error) {
	var group errgroup.Group
	cpu, traffic := make([]float64, len(t.nodes)), make([]worker.Traffic, len(t.swarms))
	r.at = time.Now()
	for i, n := range t.nodes {
		group.Go(func() (err error) { cpu[i], err = n.CPU(ctx); return err })
	}
	for i, s := range t.swarms {
		group.Go(func() (err error) { traffic[i], err = s.Traffic(ctx); return err })
	}
	group.Go(func() (err error) { r.redis, err = t.masters.read(ctx); return err })
	if err := group.Wait(); err != nil {
		return r, err
	}
	for _, used := range cpu {
		r.nodes += used
	}
	for _, one := range traffic {
		r.traffic.Actions += one.Actions
		r.traffic.Events += one.Events
		r.traffic.Received += one.Received
		r.traffic.Sent += one.Sent
	}
	return r, nil
}

// rates are what happened in a second.
type rates struct {
	Actions, Events        float64
	Nodes, Redis           float64 // processor time of all of them, µs
	ToClients, FromClients float64 // bytes
	ToRedis, FromRedis     float64
	Growth                 float64 // of Redis' memory, bytes
}

func (r reading) since(earlier reading) rates {
	s := r.at.Sub(earlier.at).Seconds()
	return rates{
		Actions: float64(r.traffic.Actions-earlier.traffic.Actions) / s, Events: float64(r.traffic.Events-earlier.traffic.Events) / s,
		Nodes: (r.nodes - earlier.nodes) / s, Redis: (r.redis.cpu - earlier.redis.cpu) / s,
		ToClients: float64(r.traffic.Received-earlier.traffic.Received) / s, FromClients: float64(r.traffic.Sent-earlier.traffic.Sent) / s,
		Growth:  (r.redis.memory - earlier.redis.memory) / s,
		ToRedis: (r.redis.in - earlier.redis.in) / s, FromRedis: (r.redis.out - earlier.redis.out) / s,
	}
}

// rounds reads the counters that many times, and returns the median of each rate.
func (t *trial) rounds(ctx context.Context, n int, each time.Duration) (rates, error) {
	var list []rates
	last, err := t.read(ctx)
	for range n {
		if err == nil {
			err = pause.For(ctx, each)
		}
		if err != nil {
			return rates{}, err
		}
		now, wrong := t.read(ctx)
		list, last, err = append(list, now.since(last)), now, wrong
	}
	if err != nil {
		return rates{}, err
	}
	return median(list), nil
}

func median(list []rates) (m rates) {
	pick := func(of func(*rates) *float64) {
		var values []float64
		for i := range list {
			values = append(values, *of(&list[i]))
		}
		*of(&m) = report.Median(values)
	}
	pick(func(r *rates) *float64 { return &r.Actions })
	pick(func(r *rates) *float64 { return &r.Events })
	pick(func(r *rates) *float64 { return &r.Nodes })
	pick(func(r *rates) *float64 { return &r.Redis })
	pick(func(r *rates) *float64 { return &r.ToClients })
	pick(func(r *rates) *float64 { return &r.FromClients })
	pick(func(r *rates) *float64 { return &r.ToRedis })
	pick(func(r *rates) *float64 { return &r.FromRedis })
	pick(func(r *rates) *float64 { return &r.Growth })
	return m
}

// play lets all clients act at a fixed rate in all, and returns what a second of it cost.
func (t *trial) play(ctx context.Context, perSecond float64, n int, each time.Duration) (r rates, err error) {
	played := make([]worker.Played, len(t.swarms))
	var group errgroup.Group
	for i, s := range t.swarms {
		group.Go(func() (err error) {
			played[i], err = s.PlayGame(ctx, worker.GameConfig{
				Duration: warmUp + time.Duration(n)*each + settle, Pace: time.Duration(float64(t.players) / perSecond * float64(time.Second)),
			})
			return err
		})
	}
	if err = pause.For(ctx, warmUp); err == nil {
		r, err = t.rounds(ctx, n, each)
	}
	if stopped := group.Wait(); err == nil {
		err = stopped
	}
	if err != nil {
		return r, err
	}
	for _, p := range played {
		if n, failures := p.Latency.Errors(); n > 0 {
			return r, fmt.Errorf("%d players were cut off: %v", n, failures)
		}
		if refused := refusals(p.Latency); refused > t.refusable*float64(worker.Done(p.Latency)) {
			return r, fmt.Errorf("the machine does not keep up: %v", p.Latency.Refusals())
		}
	}
	return r, nil
}

func refusals(t *tally.Tally) (n float64) {
	for _, of := range t.Refusals() {
		n += float64(of)
	}
	return n
}

// memory is what a node has, on average, in bytes, and what the kernel has for sockets of both ends.
type memory struct {
	resident, freed float64
	kernel          float64
}

// memory returns what the nodes have as they are, and after a collection if that is wanted.
func (t *trial) memory(ctx context.Context, free bool) (m memory, err error) {
	n := float64(len(t.nodes))
	for _, s := range t.nodes {
		now, err := s.Memory(ctx, false)
		if err != nil {
			return m, err
		}
		m.resident += float64(now.Resident) / n
		if !free {
			continue
		}
		if now, err = s.Memory(ctx, true); err != nil {
			return m, err
		}
		m.freed += float64(now.Resident) / n
	}
	m.kernel = slab()
	return m, nil
}

// slab returns how much memory the kernel has in its own structures, or 0 if it does not say.
func slab() float64 {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		var kib float64
		if _, err := fmt.Sscanf(line, "Slab: %g kB", &kib); err == nil {
			return kib * 1024
		}
	}
	return 0
}

// begin lets some clients come and go, and returns what is used then.
func (t *trial) begin(ctx context.Context) (m memory, r used, err error) {
	n := min(first, t.players)
	if err = t.connect(ctx, t.players, n); err == nil { // into other rooms than those who come later
		err = t.join(ctx, n)
	}
	if err == nil {
		err = t.leave(ctx)
	}
	if err == nil {
		err = pause.For(ctx, settle)
	}
	if err == nil {
		m, err = t.memory(ctx, true)
	}
	if err == nil {
		r, err = t.masters.read(ctx)
	}
	return m, r, err
}
