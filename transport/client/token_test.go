package client

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/transport/protocol"
)

func TestToken_Auth(t *testing.T) {
	t.Parallel()
	c := dialScript(t, Options{}, func(s *server) {
		for req, ok := s.next(); ok; req, ok = s.next() {
			switch {
			case req.Action != protocol.ActionAuth:
				s.t.Errorf("the server got %+v", req)
			case req.Token == "good":
				s.send(`{"id":%d,"user":"张三","expires":946688400}`, req.ID)
			case req.Token == "last":
				s.close(protocol.CloseUnauthorized, "the token has expired")
			default:
				s.send(`{"id":%d,"error":{"code":"unauthorized","message":"no","retry":false}}`, req.ID)
			}
		}
	})
	if reply, err := c.Do(t.Context(), protocol.Request{Action: protocol.ActionAuth, Token: "good"}); err != nil || reply.User != "张三" || reply.Expires != 946688400 {
		t.Errorf("%+v, %v", reply, err)
	}
	if _, err := c.Do(t.Context(), protocol.Request{Action: protocol.ActionAuth, Token: "bad"}); !errors.Is(err, ErrUnauthorized) || err.Error() != "client: auth: unauthorized: no" {
		t.Error(err)
	}
	for token, want := range map[string]string{
		"\xff":                                 "not sent: token: not valid UTF-8",
		strings.Repeat("x", protocol.MaxFrame): "not sent: token: makes a frame of 16419 bytes, the limit is 16384",
	} {
		if _, err := c.Do(t.Context(), protocol.Request{Action: protocol.ActionAuth, Token: token}); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Error(err)
		}
	}
	_, err := c.Do(t.Context(), protocol.Request{Action: protocol.ActionAuth, Token: "last"})
	var closed *CloseError
	redistest.ErrorIf(t, !errors.Is(err, ErrUnauthorized) || !errors.Is(err, ErrClosed) || !errors.As(err, &closed),
		"after the token has expired: %v", err)
}

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
