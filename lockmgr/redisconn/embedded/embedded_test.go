package embedded

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newClient(t *testing.T) *redis.Client {
	r := Start()
	t.Cleanup(r.Close)
	client := redis.NewClient(r.Options())
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func TestClientsShareItAndTimeIsVirtual(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := Start()
		defer r.Close()
		a, b := redis.NewClient(r.Options()), redis.NewClient(r.Options())
		defer a.Close()
		defer b.Close()
		a.Set(t.Context(), "k", "v", time.Hour)
		time.Sleep(time.Hour - time.Second)
		if got := b.Get(t.Context(), "k").Val(); got != "v" {
			t.Fatalf("a second before its end the key holds %q", got)
		}
		time.Sleep(time.Second)
		if err := b.Get(t.Context(), "k").Err(); err != redis.Nil {
			t.Fatalf("the key outlives its TTL: %v", err)
		}
	})
}

// As in Redis, time stands still for a script.
func TestAScriptSeesOneTime(t *testing.T) {
	client := newClient(t)
	script := `local begun = redis.call('TIME')
		for i = 1, 100000 do end
		local ended = redis.call('TIME')
		return begun[1] == ended[1] and begun[2] == ended[2]`
	if same, err := client.Eval(t.Context(), script, nil).Bool(); !same || err != nil {
		t.Errorf("the same time: %v, %v", same, err)
	}
}

func TestOptions_NobodyWaitsForAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newClient(t)
		var wg sync.WaitGroup
		for range 300 {
			wg.Go(func() { client.BLPop(t.Context(), time.Second, "nothing") })
		}
		wg.Wait()
		if n := client.PoolStats().WaitCount; n > 0 {
			t.Errorf("%d requests took a timer from the process's pool", n)
		}
	})
}

// Subscriptions are changed while messages pour in: neither side waits for the
// other. In a bubble a wait for a timeout would show as time that passes.
func TestPubSubDoesNotBlockItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newClient(t)
		ps := client.Subscribe(t.Context(), "c")
		defer ps.Close()
		start := time.Now()
		const n = 300
		go func() {
			for range n {
				client.Publish(t.Context(), "c", "m")
				_ = ps.Ping(t.Context())
			}
		}()
		go func() {
			for i := range n {
				_ = ps.Subscribe(t.Context(), fmt.Sprint("other", i))
			}
		}()
		for got := 0; got < n; {
			m, err := ps.Receive(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := m.(*redis.Pong); ok {
				got++
			}
		}
		if d := time.Since(start); d != 0 {
			t.Errorf("somebody waited %v", d)
		}
	})
}
