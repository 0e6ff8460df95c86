package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/transport/protocol"
)

// Each attempt goes to the next address, after a pause that grows, and is short again after a
// connection that lasted.
func TestReconnect_Attempts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCast(t, (*server).cut, nil, nil, func(s *server) {
			s.list(s.expect("users 1"), 1)
			s.drain()
		}, quiet)
		cfg := c.config()
		cfg.Addresses = []string{"ws://one/ws", "ws://two/ws"}
		cfg.random = func() float64 { return 0.5 }
		client := c.connect(cfg)
		time.Sleep(settled)
		synctest.Wait()
		redistest.OK(t, redistest.Err(client.Users(t.Context(), "1")))
		time.Sleep(settled)
		synctest.Wait()
		client.session.conn.drop(errors.New("unplugged"))
		time.Sleep(settled)
		synctest.Wait()
		var gaps []time.Duration
		for i := 1; i < len(c.attempts().times); i++ {
			if c.attempts().dialed[i] == c.attempts().dialed[i-1] {
				t.Errorf("twice in a row %s", c.attempts().dialed[i])
			}
			gaps = append(gaps, c.attempts().times[i].Sub(c.attempts().times[i-1]))
		}
		if fmt.Sprint(gaps[:3]) != "[125ms 250ms 500ms]" || gaps[3] != 20*time.Second-875*time.Millisecond+125*time.Millisecond {
			t.Errorf("pauses %v", gaps)
		}
	})
}

func TestReconnect_EndsForGood(t *testing.T) {
	t.Parallel()
	for code, ends := range map[int]bool{
		1000: false, 1001: false, 1002: true, 1003: true, 1007: true, 1008: true, 1009: true, 1011: false, 1012: false,
		4001: true, 4003: true, 4008: false, 4009: true, 4999: false,
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newCast(t, func(s *server) {
				s.close(code, "")
				s.drain()
			}, quiet)
			client := c.connect(c.config())
			time.Sleep(time.Minute)
			synctest.Wait()
			if got := client.State() == Lost; got != ends || (client.Err() != nil) != ends {
				t.Errorf("after %d: %v, %v", code, client.State(), client.Err())
			}
		})
	}
}

// Who waits for a server that is not there is told so, once.
func TestConnect_Unreachable(t *testing.T) {
	const failures = 7
	connect := func(t *testing.T, hook func(c *cast) func(error)) {
		synctest.Test(t, func(t *testing.T) {
			c := newCast(t, append(make([]script, failures), quiet)...)
			cfg := c.config()
			if hook != nil {
				cfg.OnUnreachable = hook(c)
			}
			c.connect(cfg)
		})
	}
	t.Run("by a hook", func(t *testing.T) {
		var told []string
		connect(t, func(c *cast) func(error) {
			return func(err error) { told = append(told, fmt.Sprintf("after %d: %v", len(c.attempts().dialed), err)) }
		})
		if want := "after 3: "; len(told) != 1 || !strings.HasPrefix(told[0], want) || !strings.Contains(told[0], "502") {
			t.Errorf("told %q", told)
		}
	})
	t.Run("by the log", func(t *testing.T) {
		var lines bytes.Buffer
		log.SetOutput(&lines)
		defer log.SetOutput(os.Stderr)
		connect(t, nil)
		if got := lines.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "WARN three attempts to connect to roomd have failed") || !strings.Contains(got, "502") {
			t.Errorf("logged %q", got)
		}
	})
}

func TestConnect_Fails(t *testing.T) {
	t.Parallel()
	status := func(code int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			_, _ = w.Write([]byte(body))
		}
	}
	broken := errors.New("the login is away")
	for _, tt := range []struct {
		name    string
		refusal http.HandlerFunc
		token   error
		is      error
		again   bool
	}{
		{"forbidden", status(403, `{"error":{"code":"forbidden","message":"no","retry":false}}`), nil, protocol.ErrForbidden, false},
		{"not ours", status(404, ``), nil, nil, false},
		{"bad gateway", status(502, ``), nil, nil, true},
		{"no token", nil, broken, broken, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCast(t, nil)
				c.refusal = tt.refusal
				cfg := c.config()
				if tt.token != nil {
					cfg.Token = func(context.Context) (string, error) { return "", tt.token }
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				_, err := Connect(ctx, cfg)
				if err == nil || errors.Is(err, context.DeadlineExceeded) != tt.again || tt.is != nil && !errors.Is(err, tt.is) || (len(c.attempts().dialed) > 1) != tt.again {
					t.Errorf("after %d attempts: %v", len(c.attempts().dialed), err)
				}
			})
		})
	}
	for want, cfg := range map[string]Config{
		"client: option Addresses: at least one is required":                      {},
		`client: option Addresses: URL: the scheme must be ws or wss, not "http"`: {Addresses: []string{"ws://a/ws", "http://b"}},
		"client: option Idle: -1ns is negative":                                   {Addresses: []string{"ws://a/ws"}, Idle: -1},
		"client: option Header: Authorization is set by option Token":             {Addresses: []string{"ws://a/ws"}, Token: StaticToken("t"), Header: http.Header{"Authorization": {"b"}}},
		"client: option HandshakeTimeout: -1ns is negative":                       {Addresses: []string{"ws://a/ws"}, HandshakeTimeout: -1},
	} {
		if _, err := Connect(t.Context(), cfg); err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

// After a reconnect the list counts, also if it has the same version: a failover may have changed what is in it.
func TestReconnect_SameVersion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCast(t, joined((*server).cut), func(s *server) {
			s.list(s.expect("join 42@0!1"), 1, "a", "b")
			s.drain()
		})
		r := c.connect(c.config()).mustJoin(t, "42")
		time.Sleep(time.Minute)
		synctest.Wait()
		redistest.ErrorIf(t, len(r.View().Users) != 2, "%+v", r.View())
	})
}

// quiet reads until the client has closed, and expects no request.
func quiet(s *server) {
	req, ok := s.next()
	redistest.ErrorIf(s.t, ok, "the server got %+v", req)
}
