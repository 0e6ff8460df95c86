package chaos

import (
	"context"
	"io"

	"github.com/redis/go-redis/v9"
)

// standalone is one server.
type standalone struct{ server *server }

func startStandalone(ctx context.Context, cfg Config, log func(string) io.Writer) (store, error) {
	s, err := startServer(ctx, "redis", cfg, log("redis"))
	if err != nil {
		return nil, err
	}
	return &standalone{s}, nil
}

func (s *standalone) url() string { return "redis://" + s.server.process.Addr() }

func (s *standalone) ends() []end { return endsOf(s.servers()) }

func (s *standalone) client() redis.UniversalClient { return s.server.admin }

func (s *standalone) servers() []*server { return []*server{s.server} }

func (s *standalone) primary(context.Context, string) (*server, error) { return s.server, nil }

func (s *standalone) ready(ctx context.Context) error { return s.server.admin.Ping(ctx).Err() }

func (s *standalone) close() { s.server.close() }
