// Package embedded is a Redis inside this process (miniredis): for trying things out and for
// tests. Its keys expire by the clock of time.Now, which in a synctest bubble is virtual. It
// keeps nothing on disk, and no other process can reach it. Its goroutines end with Close.
package embedded

import (
	"context"
	"net"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Redis is one embedded server.
type Redis struct{ mini *miniredis.Miniredis }

// Start returns a new, empty server.
func Start() *Redis {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	return &Redis{m}
}

// Options returns the options by which a client reaches the server; set the others yourself.
func (r *Redis) Options() *redis.Options {
	return &redis.Options{
		Addr: "embedded",
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			conn, err := r.mini.Dial()
			if err != nil {
				return nil, err
			}
			return newConn(conn), nil
		},
		// They would look the address up in DNS.
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

// SetTime sets the server's clock and stops it: for tests of a clock that steps.
func (r *Redis) SetTime(now time.Time) { r.mini.SetTime(now) }

// Close ends the server and its connections.
func (r *Redis) Close() { r.mini.Close() }
