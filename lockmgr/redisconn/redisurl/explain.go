package redisurl

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
)

// probeTimeout limits the time that Explain takes for one server.
const probeTimeout = time.Second

// ErrLogin means that Redis has answered, and does not accept the user or the password.
var ErrLogin = errors.New("it does not accept the user or the password")

// ErrSentinelLogin means that Sentinels have answered, and do not accept their own user or password.
var ErrSentinelLogin = errors.New("its Sentinels do not accept their user or their password")

// Explain returns a better error for err, a failure of this Redis, if it finds one, otherwise err. If err refuses a
// login, the better error wraps [ErrLogin], or [ErrSentinelLogin] if the Sentinels refuse it. If URL and server
// disagree about TLS, it says so: the client sees only a timeout or a closed connection.
func (db *DB) Explain(ctx context.Context, err error) error {
	if refusesLogin(err) {
		if refused := db.sentinelsRefuse(ctx); refused != nil {
			return fmt.Errorf("%w (%w)", ErrSentinelLogin, refused)
		}
		return fmt.Errorf("%w (%w)", ErrLogin, err)
	}
	if db.server != nil || db.opts != nil && db.opts.Network == "unix" {
		return err
	}
	s := db.shared()
	for _, address := range s.addresses {
		ctx, cancel := context.WithTimeout(ctx, probeTimeout)
		defer cancel()
		switch {
		case s.secure != nil && speaksPlain(ctx, address):
			return fmt.Errorf("%s does not speak TLS: its URL begins with redis, not rediss (%w)", address, err)
		case s.secure == nil && speaksTLS(ctx, address):
			return fmt.Errorf("%s speaks TLS: its URL begins with rediss, not redis (%w)", address, err)
		}
	}
	return err
}

func refusesLogin(err error) bool {
	return redis.HasErrorPrefix(err, "WRONGPASS") || redis.HasErrorPrefix(err, "NOAUTH")
}

// sentinelsRefuse returns the error of a Sentinel that refuses the login; nil if none does, or one accepts it.
func (db *DB) sentinelsRefuse(ctx context.Context) (refused error) {
	if db.sentinel == nil {
		return nil
	}
	for _, address := range db.sentinel.SentinelAddrs {
		sentinel := redis.NewSentinelClient(&redis.Options{
			Addr: address, Username: db.sentinel.SentinelUsername, Password: db.sentinel.SentinelPassword,
			TLSConfig: db.sentinel.TLSConfig, Dialer: db.sentinel.Dialer, ContextTimeoutEnabled: true,
		})
		asking, cancel := context.WithTimeout(ctx, probeTimeout)
		err := sentinel.Ping(asking).Err()
		cancel()
		_ = sentinel.Close()
		if err == nil {
			return nil
		}
		if refusesLogin(err) {
			refused = err
		}
	}
	return refused
}

// speaksPlain reports whether the server answers a PING, even with an error.
func speaksPlain(ctx context.Context, address string) bool {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	defer c.Close()
	deadline, _ := ctx.Deadline()
	_ = c.SetDeadline(deadline)
	var answer [1]byte
	if _, err = io.WriteString(c, "PING\r\n"); err == nil {
		_, err = io.ReadFull(c, answer[:])
	}
	return err == nil && (answer[0] == '+' || answer[0] == '-')
}

// speaksTLS reports whether the server answers a TLS handshake, even with an alert.
func speaksTLS(ctx context.Context, address string) bool {
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} // nothing is sent over it
	c, err := dialer.DialContext(ctx, "tcp", address)
	if err == nil {
		_ = c.Close()
	}
	var alert tls.AlertError
	return err == nil || errors.As(err, &alert)
}
