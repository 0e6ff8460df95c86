package coordinator

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// simLink is one node's network to the simulated Redis. It delays what goes over it, and loses, keeps or
// repeats what a schedule says.
type simLink struct {
	server *simServer
	admin  bool // it reaches Redis always

	mu      sync.Mutex
	rng     *rand.Rand            // guarded by mu
	latency time.Duration         // guarded by mu: of each direction, at most
	frozen  time.Time             // guarded by mu: until then nothing arrives, in either direction
	swallow int                   // guarded by mu: the reply to the script call so many from now is lost; 0: none
	delay   int                   // guarded by mu: so is that call delayed; 0: none
	late    time.Duration         // guarded by mu: by so much
	conns   map[*simConn]struct{} // guarded by mu
}

func newSimLink(server *simServer, seed uint64) *simLink {
	return &simLink{server: server, rng: rand.New(rand.NewPCG(seed, 1)), conns: make(map[*simConn]struct{})}
}

// simConn is a connection. The client has the other end of one pipe, the server that of the other.
type simConn struct {
	link           *simLink
	client, server net.Conn
	end            sync.Once
	greeted        atomic.Bool   // the node has said who it is; until then it keeps that mutex
	dead           chan struct{} // closed when nothing is delivered any more
	swallows       chan struct{} // full if the next reply is lost
}

var errSimAway = errors.New("simulated: no route to Redis")

const simTimeout = 500 * time.Millisecond // of a node's requests to Redis, and of its attempts to connect

// dial connects the node, or fails, and takes no time: meanwhile go-redis keeps a mutex, for which others wait,
// and so time would stand still.
func (l *simLink) dial(context.Context, string, string) (net.Conn, error) {
	if !l.admin && (l.isFrozen() || l.server.isDown()) {
		return nil, errSimAway
	}
	server, err := l.server.mini.Dial()
	if err != nil {
		return nil, err
	}
	outer, inner := net.Pipe()
	c := &simConn{link: l, client: inner, server: server, dead: make(chan struct{}), swallows: make(chan struct{}, 1)}
	l.mu.Lock()
	l.conns[c] = struct{}{}
	l.mu.Unlock()
	go c.carry(c.client, c.server, c.request)
	go c.carry(c.server, c.client, c.reply)
	return outer, nil
}

func (l *simLink) isFrozen() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Before(l.frozen)
}

// freeze keeps everything for so long; what is under way then arrives late.
func (l *simLink) freeze(lasts time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.frozen = latest(l.frozen, time.Now().Add(lasts))
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// reset ends all connections of the node at once. What is under way is lost.
func (l *simLink) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		go c.close() // takes l.mu
	}
}

// hangUp has the server end all connections of the node.
func (l *simLink) hangUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		_ = c.server.Close()
	}
}

// thaw ends all faults of the link.
func (l *simLink) thaw() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.frozen, l.swallow, l.delay = time.Time{}, 0, 0
}

func (l *simLink) set(change func(l *simLink)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(l)
}

func (c *simConn) close() {
	c.end.Do(func() {
		close(c.dead)
		_ = c.client.Close()
		_ = c.server.Close()
		c.link.mu.Lock()
		defer c.link.mu.Unlock()
		delete(c.link.conns, c)
	})
}

// parcel is what was written at once: a command with a pipeline's others, or a reply.
type parcel struct {
	text []byte
	due  time.Time
	last bool // nothing more comes
}

// carry brings what comes from one end to the other, until that is closed. What was written before a
// connection was given up still arrives.
func (c *simConn) carry(from, to net.Conn, look func([]byte) (late time.Duration, lost bool)) {
	queue := &parcels{news: make(chan struct{}, 1)}
	go func() {
		defer queue.add(parcel{last: true})
		buffer := make([]byte, 1<<16)
		for {
			n, err := from.Read(buffer)
			if err != nil {
				return
			}
			late, lost := look(buffer[:n])
			if c.greeted.Load() {
				late += c.link.delayOf()
			}
			if !lost {
				queue.add(parcel{bytes.Clone(buffer[:n]), time.Now().Add(late), false})
			}
		}
	}()
	for {
		p := queue.next()
		if !c.await(p.due) {
			return
		}
		if p.last {
			break
		}
		if _, err := to.Write(p.text); err != nil && to == c.client {
			return // nobody reads the replies; the other direction ends the connection
		} else if err != nil {
			break
		}
	}
	if c.await(time.Now()) { // an end comes no faster than the rest
		c.close()
	}
}

// await waits until something that is due then may arrive. It reports false if the connection ends first.
func (c *simConn) await(due time.Time) bool {
	for {
		c.link.mu.Lock()
		wait := time.Until(latest(due, c.link.frozen))
		c.link.mu.Unlock()
		if wait <= 0 || !c.greeted.Load() {
			return true
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-c.dead:
			timer.Stop()
			return false
		}
	}
}

// simLeastDelay is how long each parcel takes at least: else what goes on for ever would do so in no time.
const simLeastDelay = 50 * time.Microsecond

// delayOf draws how long one parcel takes.
func (l *simLink) delayOf() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return simLeastDelay + time.Duration(l.rng.Int64N(int64(l.latency)+1))
}

// request looks at what the node sends.
func (c *simConn) request(text []byte) (late time.Duration, lost bool) {
	if text = bytes.ToLower(text); !bytes.Contains(text, []byte("\r\nhello\r\n")) && !bytes.Contains(text, []byte("\r\nclient\r\n")) {
		c.greeted.Store(true)
	}
	if !bytes.Contains(text, []byte("\r\nevalsha\r\n")) {
		return 0, false
	}
	l := c.link
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.swallow > 0 {
		if l.swallow--; l.swallow == 0 {
			select {
			case c.swallows <- struct{}{}:
			default:
			}
		}
	}
	if l.delay > 0 {
		if l.delay--; l.delay == 0 {
			late = l.late
			go func() { _ = c.client.Close() }() // the node gives the connection up, and sends by another one
		}
	}
	return late, false
}

// reply looks at what the node is to get.
func (c *simConn) reply([]byte) (late time.Duration, lost bool) {
	select {
	case <-c.swallows:
		go c.close()
		return 0, true
	default:
		return 0, false
	}
}

// parcels is a queue without a bound.
type parcels struct {
	news chan struct{} // full if there may be some

	mu   sync.Mutex
	list []parcel // guarded by mu
}

func (q *parcels) add(p parcel) {
	q.mu.Lock()
	q.list = append(q.list, p)
	q.mu.Unlock()
	select {
	case q.news <- struct{}{}:
	default:
	}
}

// next waits for the next one. The last is always added.
func (q *parcels) next() parcel {
	for {
		q.mu.Lock()
		if len(q.list) > 0 {
			defer q.mu.Unlock()
			p := q.list[0]
			q.list = q.list[1:]
			return p
		}
		q.mu.Unlock()
		<-q.news
	}
}
