package lockmgr

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
)

// A token that inherits a hold has it for what is left of its TTL: it has not begun anew, nor is it without an end.
func TestInherit_AHoldKeepsItsEnd(t *testing.T) {
	client := redistest.Start(t).Client()
	m := newManager(t, client, Options{})
	earlier, heir := m.names.newToken("a"), m.names.newToken("a")
	redistest.OK(t, client.Set(t.Context(), m.Key("a"), earlier, time.Minute).Err())
	redistest.OK(t, m.Run(t.Context(), inheritScript, "a", nil, heir, earlier[len("a:"):]).Err())
	holder, left := client.Get(t.Context(), m.Key("a")).Val(), client.PTTL(t.Context(), m.Key("a")).Val()
	redistest.ErrorIf(t, holder != heir || left <= 0 || left > time.Minute,
		"%q holds the lock for %v; want %q for what is left of a minute", holder, left, heir)
}

// A token that inherits a position waits at the better one of both, and the earlier token waits no more.
func TestInherit_ThePositionIsTheBetterOne(t *testing.T) {
	client := redistest.Start(t).Client()
	m := newManager(t, client, Options{})
	for name, at := range map[string]struct{ earlier, heir, want float64 }{
		"no position": {1, 0, 1}, "a later one": {1, 2, 1}, "a better one": {2, 1, 1},
	} {
		earlier, heir, queue := m.names.newToken(name), m.names.newToken(name), m.Keys(name)[1]
		redistest.OK(t, client.ZAdd(t.Context(), queue, redis.Z{Score: at.earlier, Member: earlier}).Err())
		if at.heir > 0 {
			redistest.OK(t, client.ZAdd(t.Context(), queue, redis.Z{Score: at.heir, Member: heir}).Err())
		}
		redistest.OK(t, m.Run(t.Context(), inheritScript, name, nil, heir, earlier[len(name)+1:]).Err())
		got := client.ZScore(t.Context(), queue, heir).Val()
		redistest.ErrorIf(t, got != at.want, "%s: the heir waits at %v, want %v", name, got, at.want)
		if got := client.ZScore(t.Context(), queue, earlier).Val(); got < 1e18 {
			t.Errorf("%s: the earlier token waits at %v, want it buried", name, got)
		}
	}
}
