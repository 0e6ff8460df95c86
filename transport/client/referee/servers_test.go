package referee_test

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"roomd/lockmgr"
	"roomd/lockmgr/redisconn/redisurl"
	"roomd/room"
	"roomd/room/coordinator"
	"roomd/transport"
	"roomd/transport/auth"
	"roomd/transport/client"
	"roomd/transport/node"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = "a key for tokens that only tests have"

// servers are nodes on one Redis within the process that trust the test's tokens.
type servers struct {
	redis  *redisurl.DB
	signer *auth.Signer
	nodes  []*node.Node
	ends   []func()
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func startServers(n int) *servers {
	s := &servers{redis: must(redisurl.Open(redisurl.Embedded)), signer: must(auth.SecretSigner(key))}
	s.ends = append(s.ends, s.redis.Close)
	for range n {
		s.nodes = append(s.nodes, s.node())
	}
	return s
}

func (s *servers) node() *node.Node {
	n := must(node.Start(context.Background(), node.Config{
		Listen: "127.0.0.1:0", Redis: s.redis, Room: coordinator.Options{Rules: room.Rules{Seating: room.Capacity(8)},
			Grace: 5 * time.Second},
		Serve: transport.Options{Rate: 1000, Burst: 10_000, Auth: must(auth.New(auth.Secret(key), auth.Options{}))},
	}))
	s.ends = append(s.ends, func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = n.Shutdown(ctx)
	})
	return n
}

// connect connects a user to any of the nodes. The referee is an admin.
func (s *servers) connect(user string) *client.Client {
	role := auth.RolePlayer
	if user == "referee" {
		role = auth.RoleAdmin
	}
	token := must(s.signer.Sign(auth.Identity{User: user, Role: role, Expires: time.Now().Add(time.Hour)}))
	cfg := client.Config{Token: client.StaticToken(token), BackoffBase: time.Millisecond,
		BackoffCap: 50 * time.Millisecond}
	for _, n := range s.nodes {
		cfg.Addresses = append(cfg.Addresses, n.URL())
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c := must(client.Connect(ctx, cfg))
	s.ends = append(s.ends, c.Close)
	return c
}

// locks are those of one referee, for as long as db lives.
func (s *servers) locks() *lockmgr.Manager {
	db := s.redis.NewClient()
	m := must(lockmgr.New(db, lockmgr.Options{TTL: 300 * time.Millisecond}))
	s.ends = append(s.ends, func() { m.Close(); _ = db.Close() })
	return m
}

func (s *servers) stop() {
	for i := len(s.ends) - 1; i >= 0; i-- {
		s.ends[i]()
	}
}
