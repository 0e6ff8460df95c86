package scenarios

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redisconn/embedded"
	"roomd/lockmgr/redisconn/redisurl"
	"roomd/lockmgr/redistest/proxy"
	"roomd/transport"
	"roomd/transport/client"
	"roomd/transport/node"
	"roomd/transport/protocol"
)

// stage has real nodes, each behind a relay, and their Redis behind a proxy.
type stage struct {
	redis    *embedded.Redis
	network  *proxy.Proxy // between nodes and Redis
	noRedis  atomic.Bool  // the network leads nowhere
	db       *redisurl.DB
	serve    transport.Options
	nodes    []*node.Node // nil if it is stopped
	relays   []*relay
	arrivals chan handshake // of the relays
	at       int            // the relay of the latest handshake
	guests   map[string]*client.Conn

	mu     sync.Mutex
	epochs []string // guarded by mu: those that were seen, in order
}

// start starts nodes with an embedded Redis.
func (p *player) start(_ context.Context, s step) error {
	count, limit, _ := strings.Cut(s.text, " connections ")
	n, err := strconv.Atoi(count)
	most, _ := strconv.Atoi(limit) // 0 is the default
	st := &stage{redis: embedded.Start(), arrivals: make(chan handshake, 1000), at: -1, guests: map[string]*client.Conn{},
		serve: transport.Options{DrainSpread: -1, Rate: -1, MaxConnections: most}}
	p.stage = st
	if err != nil {
		return err
	}
	options := st.redis.Options()
	st.network, err = proxy.Start(func(ctx context.Context) (net.Conn, error) {
		if st.noRedis.Load() {
			return nil, errors.New("the scenario has no Redis now")
		}
		return options.Dialer(ctx, "tcp", options.Addr)
	}, nil, nil)
	if err != nil {
		return err
	}
	if st.db, err = redisurl.Open("redis://" + st.network.Addr()); err != nil {
		return err
	}
	for i := range n {
		st.nodes = append(st.nodes, nil)
		if err := st.run(i, "127.0.0.1:0"); err != nil {
			return err
		}
		st.relays = append(st.relays, startRelay(i, st.nodes[i].Addr(), st.arrivals))
		p.addresses = append(p.addresses, st.relays[i].url())
	}
	return nil
}

// run starts a node.
func (st *stage) run(i int, listen string) (err error) {
	st.nodes[i], err = node.Start(context.Background(), node.Config{Listen: listen, AdminListen: "127.0.0.1:0",
		Redis: st.db, Serve: st.serve})
	return err
}

func (st *stage) close() {
	for _, guest := range st.guests {
		guest.Close()
	}
	st.noRedis.Store(false)
	for _, n := range st.nodes {
		if n != nil {
			_ = n.Shutdown(context.Background())
		}
	}
	for _, r := range st.relays {
		r.close()
	}
	if st.db != nil {
		st.db.Close()
	}
	if st.network != nil {
		st.network.Close()
	}
	st.redis.Close()
}

// running returns the first node that runs.
func (st *stage) running() *node.Node {
	return cmp.Or(st.nodes...)
}

var epoch = regexp.MustCompile(`"epoch":\s*"([^"]+)"`)

// rename replaces the epochs in an answer, which are random, by e for the first that was seen, f for the second, …
func (st *stage) rename(answer string) string {
	st.mu.Lock()
	defer st.mu.Unlock()
	return epoch.ReplaceAllStringFunc(answer, func(found string) string {
		real := epoch.FindStringSubmatch(found)[1]
		n := 0
		for n < len(st.epochs) && st.epochs[n] != real {
			n++
		}
		if n == len(st.epochs) {
			st.epochs = append(st.epochs, real)
		}
		return fmt.Sprintf(`"epoch":%q`, string(rune('e'+n)))
	})
}

// arrive waits for a client's handshake, and compares a node's answer with the step.
func (st *stage) arrive(ctx context.Context, s step) error {
	h, err := receive(ctx, st.arrivals)
	if err != nil {
		return fmt.Errorf("no client comes: %w", err)
	}
	want, before := http.StatusSwitchingProtocols, st.at
	if s.verb == "refuse" {
		want, _ = strconv.Atoi(strings.Fields(s.text)[0])
	}
	st.at = h.relay
	switch {
	case h.status != want:
		return fmt.Errorf("the node answers %d", h.status)
	case s.text == "other" && h.relay == before:
		return errors.New("the client comes to the same address")
	}
	return nil
}

// disturb does something to the network, a node or Redis.
func (p *player) disturb(ctx context.Context, s step) (err error) {
	st := p.stage
	if st == nil {
		return errors.New("the scenario has no nodes")
	}
	what, which, _ := strings.Cut(s.text, " ")
	i := max(0, st.at)
	switch which {
	case "":
	case "other":
		i = (i + 1) % len(st.relays)
	default:
		i, _ = strconv.Atoi(which)
	}
	switch s.verb + " " + what {
	case "cut ":
		st.relays[i].cut()
	case "lose ":
		st.relays[i].loses.Store(true)
	case "node gone":
		st.relays[i].gone.Store(true)
		st.relays[i].cut()
	case "node back":
		st.relays[i].gone.Store(false)
	case "node stops":
		stopped := st.nodes[i]
		err = stopped.Shutdown(ctx)
		st.nodes[i] = nil
	case "node starts":
		err = st.run(i, st.relays[i].node)
	case "redis gone":
		st.noRedis.Store(true)
		st.network.Cut()
	case "redis back":
		st.noRedis.Store(false)
	case "redis empty":
		rdb := redis.NewClient(st.redis.Options())
		defer rdb.Close()
		err = rdb.FlushAll(ctx).Err()
	default:
		err = errors.New("not with real nodes")
	}
	return err
}

// guest sends a request on another user's connection, straight to a node, or closes that.
func (p *player) guest(ctx context.Context, s step) error {
	user, frame, _ := strings.Cut(s.text, " ")
	conn := p.stage.guests[user]
	what, count, _ := strings.Cut(frame, " ")
	switch what {
	case "leaves":
		conn.Close()
		return nil
	case "floods":
		n, err := strconv.Atoi(count)
		for i := 1; i <= n && err == nil; i++ {
			data := protocol.JSON(strconv.Itoa(i))
			_, err = conn.Do(ctx, protocol.Request{Action: protocol.ActionSet, Room: "42", Data: data})
		}
		return err
	}
	request, bad := protocol.DecodeRequest([]byte(`{"id":0,` + strings.TrimPrefix(frame, "{")))
	if bad != nil {
		return bad
	}
	if conn == nil {
		var err error
		if conn, err = client.Dial(ctx, p.stage.running().URL(), client.Options{User: user}); err != nil {
			return err
		}
		p.stage.guests[user] = conn
	}
	_, err := conn.Do(ctx, request)
	return err
}

// operate sends a request to a node's API for operators.
func (p *player) operate(ctx context.Context, s step) error {
	method, rest, _ := strings.Cut(s.text, " ")
	path, body, _ := strings.Cut(rest, " ")
	_, err := p.stage.api(ctx, method, path, body)
	return err
}

// shown asks a node's API for operators until it shows what the step says.
func (p *player) shown(ctx context.Context, s step) error {
	path, want, _ := strings.Cut(s.text, " ")
	return until(ctx, func() (string, bool) {
		got, err := p.stage.api(ctx, http.MethodGet, path, "")
		if err != nil {
			return err.Error(), false
		}
		return got, shows(want, got)
	})
}

func (st *stage) api(ctx context.Context, method, path, body string) (text string, err error) {
	url := "http://" + st.running().AdminAddr() + path
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if response.StatusCode >= 300 {
		err = fmt.Errorf("%s: %s", response.Status, bytes.TrimSpace(answer))
	}
	return string(answer), err
}
