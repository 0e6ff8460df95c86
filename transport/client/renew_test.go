package client

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/transport/protocol"
)

// jwt returns a token that expires then, which nobody signed.
func jwt(expires time.Time) string {
	return "e30." + base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"exp":%d}`, expires.Unix())) + ".x"
}

func TestToken_Renewed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		ahead := func() time.Time { return time.Now().Add(24 * time.Hour) } // the server's clock; only that counts
		var asked, shown []time.Duration
		c := newCast(t, func(s *server) {
			for i := 0; ; i++ {
				req, ok := s.next()
				if !ok {
					return
				}
				if req.Action == protocol.ActionPing {
					s.send(`{"id":%d,"time":%d}`, req.ID, ahead().UnixMilli())
					i--
					continue
				}
				shown = append(shown, time.Since(begin))
				if i == 1 {
					s.refuse(req, "unauthorized") // the older one counts on
					continue
				}
				s.send(`{"id":%d,"user":"a","expires":%d}`, req.ID, ahead().Add(1000*time.Second).Unix())
			}
		})
		cfg := c.config()
		cfg.random = func() float64 { return 0.5 }
		cfg.Token = func(context.Context) (string, error) {
			asked = append(asked, time.Since(begin))
			return jwt(ahead().Add(100 * time.Second)), nil
		}
		client := c.connect(cfg)
		time.Sleep(time.Hour)
		synctest.Wait()
		client.Close()
		want := "[1m20s 14m40s 14m40.125s 28m0.025s 41m20.005s 54m40.001s]" // expires is in whole seconds
		redistest.ErrorIf(t, fmt.Sprint(shown) != want || !slices.Equal(asked[1:], shown),
			"asked after %v, shown after %v, want %s", asked, shown, want)
	})
}

func TestReconnect_TokenRefused(t *testing.T) {
	t.Parallel()
	unauthorized := func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"error":{"code":"unauthorized","message":"expired","retry":false}}`))
	}
	expire := func(s *server) { s.close(protocol.CloseUnauthorized, "the token has expired") }
	for _, tt := range []struct {
		name    string
		scripts []script
		token   bool
		asked   int
		ends    bool
	}{
		{"expired, then a new one", []script{expire, quiet}, true, 2, false},
		{"expired, and no other", []script{expire, quiet}, false, 0, true},
		{"expired, and refused", []script{expire, nil}, true, 2, true},
		{"refused once", []script{(*server).cut, nil, quiet}, true, 3, false},
		{"refused twice", []script{(*server).cut, nil, nil, quiet}, true, 3, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCast(t, tt.scripts...)
				c.refusal = unauthorized
				cfg, asked := c.config(), 0
				if tt.token {
					cfg.Token = func(context.Context) (string, error) { asked++; return "t", nil }
				}
				client := c.connect(cfg)
				time.Sleep(time.Minute)
				synctest.Wait()
				redistest.ErrorIf(t, asked != tt.asked || (client.State() == Lost) != tt.ends,
					"asked %d times, %v, %v", asked, client.State(), client.Err())
				if tt.ends && (!errors.Is(client.Err(), ErrUnauthorized) || !errors.Is(client.Err(), ErrClosed)) {
					t.Error(client.Err())
				}
			})
		})
	}
}
