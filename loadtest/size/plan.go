package size

import (
	"fmt"
	"math"
)

// What can decide how many nodes or servers there have to be.
const (
	byProcessor   = "processor"
	byMemory      = "memory"
	byConnections = "connections"
)

// window is how long after a commit another node may not have heard of it, so that its own is contended: about a round trip, which is
// assumed and not measured.
const window = 0.001

// heard is in which share of the actions who acts gets an event, too: in all but those that leave and join. What that costs is a
// part of the action.
const heard = 0.8

// Plan is what a Load needs. Its JSON form is a contract that scripts rely on. All of it is computed.
type Plan struct {
	Rooms       float64 `json:"rooms"`
	Connections float64 `json:"connections"`
	Actions     float64 `json:"actions_per_s"`
	Events      float64 `json:"events_per_s"` // delivered to clients

	Nodes Nodes `json:"nodes"`
	Redis Redis `json:"redis"`

	ToClients   float64 `json:"to_clients_bytes_per_s"` // of all nodes
	FromClients float64 `json:"from_clients_bytes_per_s"`
	ToRedis     float64 `json:"to_redis_bytes_per_s"`
	FromRedis   float64 `json:"from_redis_bytes_per_s"`

	Warnings []string `json:"warnings,omitempty"`
}

// Nodes are all nodes, and what one of them needs.
type Nodes struct {
	Count     float64 `json:"count"`
	DecidedBy string  `json:"decided_by"`

	// How many there would have to be for one reason alone.
	ByProcessor   float64 `json:"by_processor"`
	ByMemory      float64 `json:"by_memory"`
	ByConnections float64 `json:"by_connections"`

	CPU         float64 `json:"cores"`            // that all of them use
	Connections float64 `json:"connections_each"` // of one
	Memory      float64 `json:"memory_each"`      // of the process
	Kernel      float64 `json:"kernel_each"`      // of the kernel for its sockets
	Files       float64 `json:"open_files_each"`
	Holding     float64 `json:"nodes_of_a_room"` // with somebody of the same room, on average
}

// Redis is all masters of Redis.
type Redis struct {
	Masters   float64 `json:"masters"`
	DecidedBy string  `json:"decided_by"`

	ByProcessor float64 `json:"by_processor"`
	ByMemory    float64 `json:"by_memory"`

	CPU       float64 `json:"cores"`         // that all of them use, one thread each
	Memory    float64 `json:"memory"`        // of all together
	PerCommit float64 `json:"us_per_action"` // processor time
	Contended float64 `json:"contended"`     // share of the actions
}

// Plan computes what a valid load needs, at these costs.
func (l Load) Plan(c *Costs) (*Plan, error) {
	if err := l.Validate(); err != nil {
		return nil, err
	}
	if err := l.leaves(c); err != nil {
		return nil, err
	}
	p := &Plan{Rooms: math.Ceil(float64(l.Players) / float64(l.PerRoom))}
	p.Connections = float64(l.Players) + p.Rooms*float64(l.Watchers)
	p.Actions = float64(l.Players) * l.Actions
	p.Events = p.Actions * (l.others() + heard)
	// More nodes share more rooms, which costs each of them a copy, and the news of each commit. So their number is found step by step. It only
	// grows, and a room is on no more nodes than it has connections.
	for n := 1.0; ; n = p.Nodes.Count {
		p.Nodes = l.nodes(c, p, n)
		if p.Nodes.Count <= n {
			p.Nodes = l.each(c, p, n)
			break
		}
	}
	for m := 1.0; ; m = max(p.Redis.ByProcessor, p.Redis.ByMemory) {
		if p.Redis = l.redis(c, p, p.Nodes.Count, m); max(p.Redis.ByProcessor, p.Redis.ByMemory) <= m {
			break
		}
	}
	l.traffic(c, p)
	l.warn(p)
	return p, nil
}

// leaves returns an error if a machine is used up before anybody comes.
func (l Load) leaves(c *Costs) error {
	for _, m := range []struct {
		name  string
		value int64
		own   float64
	}{{"memory", l.Memory, c.Values[NodeMemory]}, {"redis-memory", l.RedisMemory, c.Values[RedisMemory]}} {
		if float64(m.value)*l.Utilization < 1.5*m.own {
			return fmt.Errorf("%s is %d, of which at a utilization of %v hardly anything is left: the process alone has %.0f", m.name, m.value, l.Utilization, m.own)
		}
	}
	if l.Utilization < 1.5*max(c.Values[NodeIdle]/float64(l.Cores), c.Values[RedisIdle])/1e6 {
		return fmt.Errorf("utilization is %v, of which a node without clients, or Redis without nodes, needs most", l.Utilization)
	}
	return nil
}

// At computes what a valid load uses on so many nodes and masters, whether it needs them or not.
func (l Load) At(c *Costs, nodes, masters int) (*Plan, error) {
	p, err := l.Plan(c)
	if err != nil {
		return nil, err
	}
	p.Nodes = l.each(c, p, float64(nodes))
	p.Nodes.Count = float64(nodes)
	p.Redis = l.redis(c, p, float64(nodes), float64(masters))
	l.traffic(c, p)
	return p, nil
}

// seated returns how many members a room has.
func (l Load) seated() float64 { return float64(max(1, min(int64(l.PerRoom), l.Players))) }

// others returns how many there are in a room beside who acts.
func (l Load) others() float64 { return l.seated() - 1 + float64(l.Watchers) }

// holding returns on how many of n nodes there is somebody of a room, on average, when a balancer spreads connections at random.
func (l Load) holding(n float64) float64 {
	if l.Players == 0 {
		return 0
	}
	// n (1 - (1 - 1/n)^k), in a form that keeps its digits where n is large.
	k := l.seated() + float64(l.Watchers)
	return -n * math.Expm1(k*math.Log1p(-1/n))
}

// nodes returns how many nodes there have to be, if the rooms are spread as over n.
func (l Load) nodes(c *Costs, p *Plan, n float64) Nodes {
	e := l.each(c, p, n)
	cores, memory := float64(l.Cores)*l.Utilization, float64(l.Memory)*l.Utilization
	own := c.Values[NodeMemory]
	shared := (e.Memory + e.Kernel - own) * n // what is spread over all of them
	e.ByProcessor = atLeastOne((e.CPU - n*c.Values[NodeIdle]/1e6) / (cores - c.Values[NodeIdle]/1e6))
	e.ByMemory = atLeastOne(shared / (memory - own))
	e.ByConnections = atLeastOne(p.Connections / float64(l.MaxConnections))
	e.Count = max(n, e.ByProcessor, e.ByMemory, e.ByConnections)
	return e
}

// each returns what n nodes use.
func (l Load) each(c *Costs, p *Plan, n float64) Nodes {
	v := c.Values
	e := p.Nodes
	e.Holding = l.holding(n)
	e.CPU = ((p.Actions*(v[NodeAction]+e.Holding*v[NodeCommit])+p.Actions*l.others()*v[NodeEvent])*lonely(c, NodeFalls, p.Actions/n) + p.Connections*v[NodeConnection] + n*v[NodeIdle]) / 1e6
	e.Connections = math.Ceil(p.Connections / n)
	e.Memory = v[NodeMemory] + v[NodeGarbage]*(p.Connections*v[NodeMemoryConnection]+float64(l.Players)*v[NodeMemoryMember]+p.Rooms*e.Holding*v[NodeMemoryRoom])/n
	e.Kernel = e.Connections * v[KernelConnection]
	e.Files = files(e.Connections)
	most := max(e.ByProcessor, e.ByMemory, e.ByConnections)
	switch most {
	case e.ByProcessor:
		e.DecidedBy = byProcessor
	case e.ByMemory:
		e.DecidedBy = byMemory
	default:
		e.DecidedBy = byConnections
	}
	return e
}

// quietest are the fewest actions/s for which costs are computed as more than those at busy-rate.
const quietest = 50

// lonely returns by which factor an action costs more where there are few: what is done in one go for many is done for it alone.
func lonely(c *Costs, falls string, perSecond float64) float64 {
	busy := c.Values[BusyRate]
	return math.Pow(busy/max(min(busy, quietest), min(busy, perSecond)), c.Values[falls])
}

// files returns how many files a node must be allowed to open. Besides its clients it keeps up to 1,024 for connections that are no
// WebSockets, and up to as many for Redis and itself.
func files(clients float64) float64 { return clients + max(4, min(math.Floor(clients/8), 1024)) + 1024 }

// redis returns what so many masters use with n nodes.
func (l Load) redis(c *Costs, p *Plan, n, masters float64) Redis {
	v := c.Values
	r := Redis{Masters: masters, Contended: min(1, l.seated()*l.Actions*(1-1/n)*window)}
	r.PerCommit = v[RedisCommit]*(1-r.Contended) + v[RedisContended]*r.Contended + max(0, p.Nodes.Holding-1)*v[RedisSubscriber] + float64(l.Replicas)*v[RedisReplica]
	entries, feed := 0.0, 0.0
	if l.Journal > 0 {
		r.PerCommit += v[RedisJournal]
		entries = float64(l.Journal)
	}
	if l.Feed > 0 {
		r.PerCommit += v[RedisFeed]
		feed = float64(l.Feed)
	}
	if l.Profile == Cluster {
		r.PerCommit += v[RedisCluster]
	}
	r.PerCommit *= lonely(c, RedisFalls, p.Actions/masters)
	work := p.Actions * r.PerCommit / 1e6
	own := n * v[RedisNode] / 1e6
	data := p.Rooms*(v[RedisMemoryRoom]+p.Nodes.Holding*v[RedisMemorySubscriber]+entries*v[RedisMemoryEntry]) + float64(l.Players)*v[RedisMemoryMember] + feed*v[RedisMemoryFeed]
	free := float64(l.RedisMemory)*l.Utilization - v[RedisMemory]
	r.ByProcessor = atLeastOne((work + own) / (l.Utilization - v[RedisIdle]/1e6))
	r.ByMemory = atLeastOne(data / free)
	r.DecidedBy = byProcessor
	if r.ByMemory > r.ByProcessor {
		r.DecidedBy = byMemory
	}
	r.CPU = work + own + r.Masters*v[RedisIdle]/1e6
	r.Memory = data + r.Masters*v[RedisMemory]
	return r
}

// traffic computes what goes over networks, without the heads of TCP and IP.
func (l Load) traffic(c *Costs, p *Plan) {
	v := c.Values
	p.FromClients = p.Actions*v[BytesAction] + p.Connections*v[BytesPing]
	p.ToClients = p.Actions*v[BytesReply] + p.Actions*l.others()*v[BytesEvent] + p.Connections*v[BytesPing]
	idle := p.Nodes.Count * v[BytesNodeIdle] / 2
	p.ToRedis = p.Actions*v[BytesCommit] + idle
	p.FromRedis = p.Actions*(v[BytesAnswer]+p.Nodes.Holding*v[BytesMessage]) + idle
}

// warn says what the figures alone do not.
func (l Load) warn(p *Plan) {
	if l.Profile == Standalone && p.Redis.Masters > 1 {
		p.Warnings = append(p.Warnings, fmt.Sprintf("one Redis is not enough: its %s would be used %.1f times; plan with --profile cluster", p.Redis.DecidedBy,
			max(p.Redis.CPU/l.Utilization, p.Redis.Memory/(float64(l.RedisMemory)*l.Utilization))))
	}
	if rate := l.seated() * l.Actions; rate > 10_000 {
		p.Warnings = append(p.Warnings, fmt.Sprintf("a room has %.0f actions/s: all of them go through one lock, which more nodes do not make faster", rate))
	}
	if l.Feed > 0 && l.Profile == Cluster && p.Redis.Masters > 1 {
		p.Warnings = append(p.Warnings, "the feed is on one master, which has more to do than the others")
	}
}

func atLeastOne(n float64) float64 { return max(1, math.Ceil(n)) }
