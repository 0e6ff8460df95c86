package lockmgr

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/pubsub"
	"roomd/lockmgr/redistest"
)

func TestParseOffer(t *testing.T) {
	for payload, want := range map[string]offer{
		"7 1700000000000001 a b:c": {7, 1700000000000001, "a b:c"},
		"7 12":                     {},
		"x 12 a":                   {},
		"7 x a":                    {},
		"":                         {},
	} {
		got, ok := parseOffer(payload)
		if ok != (want != offer{}) || ok && got != want {
			t.Errorf("%q: %+v, %v", payload, got, ok)
		}
	}
}

// Whoever is handed the lock goes to work without asking, for the claim; if the
// work takes longer, the hold gets its whole TTL.
func TestHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, clients := nodes(t, 2, Options{Poll: time.Second})
		var asked atomic.Int32
		clients[1].AddHook(redistest.Hook{Before: func(_ context.Context, cmd redis.Cmder) error {
			if isScript(cmd, acquireScript) {
				asked.Add(1)
			}
			return nil
		}})
		first := mustAcquire(t, managers[0], "a")
		got := make(chan *Lock)
		go func() {
			lock, err := managers[1].Acquire(t.Context(), "a")
			if err != nil {
				t.Error(err)
			}
			got <- lock
		}()
		synctest.Wait()
		before := asked.Load()
		time.Sleep(time.Millisecond) // far from a poll
		mustRelease(t, first)
		second := <-got
		if asked.Load() != before {
			t.Error("it asked again")
		}
		if second.Fence() <= first.Fence() {
			t.Errorf("fence %d after %d", second.Fence(), first.Fence())
		}
		if left := time.Until(second.Deadline()); left != DefaultClaim {
			t.Errorf("%v are left, want the claim", left)
		}
		time.Sleep(DefaultClaim)
		if left := time.Until(second.Deadline()); left != DefaultTTL-DefaultClaim/2 {
			t.Errorf("%v are left after the claim", left)
		}
		time.Sleep(DefaultTTL)
		if second.Err() == nil {
			t.Error("it was extended more than once")
		}
	})
}

// A wake-up that was under way for longer than the claim says nothing any more.
func TestOfferThatComesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		managers, _ := nodes(t, 1, Options{})
		m := managers[0]
		sent := time.Now()
		w := &waiter{token: "t", given: make(chan *grant, 1), clock: moment{sent, 5_000_000}}
		l := &line{waiters: []*waiter{w}}
		time.Sleep(10 * time.Second)
		at := int64(5_000_000 + (10*time.Second - DefaultClaim + time.Millisecond).Microseconds())
		m.woken(l, offer{1, at, "t"})
		g := <-w.given
		if g == nil || !g.since.Add(g.lasts).Equal(time.Now().Add(time.Millisecond)) {
			t.Fatalf("%+v", g)
		}
		m.woken(l, offer{1, at - 1000, "t"})
		if g := <-w.given; g != nil {
			t.Errorf("a claim that is over was taken for a hold: %+v", g)
		}
		w.clock = moment{}
		m.woken(l, offer{1, at, "t"})
		if g := <-w.given; g != nil {
			t.Errorf("without a clock: %+v", g)
		}
	})
}

func TestBetterMoment(t *testing.T) {
	now := time.Now()
	at := func(ms, server int) moment {
		return moment{now.Add(time.Duration(ms) * time.Millisecond), int64(server) * 1000}
	}
	for _, tt := range []struct{ a, b, want moment }{
		{moment{}, at(0, 5), at(0, 5)},
		{at(0, 5), at(10, 20), at(0, 5)},   // the second was 15 under way, the first at most 10 less
		{at(0, 9), at(10, 12), at(10, 12)}, // the second was quicker
	} {
		if got := tt.a.better(tt.b); got != tt.want {
			t.Errorf("%v, %v: got %v", tt.a, tt.b, got)
		}
	}
}

var ticketScript = redis.NewScript(Lua + `
local lock = lock_at(1, ARGV[1], ARGV[2])
if lock_take(lock, ARGV[3], 3000) then
  redis.call('RPUSH', KEYS[4], ARGV[3])
  return lock_pass(lock, ARGV[4], 3000, 60000) and 2 or 1
end
lock_queue(lock, ARGV[3], 60000)
return 0`)

func TestTicket(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client) {
		hub := pubsub.New(client, nil)
		defer hub.Close()
		m := newManager(t, client, Options{Hub: hub, Pipelined: true})
		ticket, err := m.Ticket("a", "log")
		if err != nil {
			t.Fatal(err)
		}
		defer ticket.Close()
		run := func(token, heir string) int {
			t.Helper()
			n, err := ticket.Run(t.Context(), ticketScript, token, heir).Int()
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		other := mustAcquire(t, newManager(t, client, Options{}), "a")
		ticket.Listen()
		if run(ticket.Token(), "x") != 0 {
			t.Fatal("taken from its holder")
		}
		// The subscription may not stand yet; then there is one more wake-up to be had.
		for woken := false; !woken; {
			_ = other.Release(t.Context())
			select {
			case <-ticket.Woken():
				woken = true
			case <-time.After(DefaultClaim):
				other = mustAcquire(t, newManager(t, client, Options{}), "a")
				run(ticket.Token(), "x")
			}
		}
		token := ticket.Token()
		if got := client.Get(t.Context(), "Lock:a").Val(); got != token {
			t.Fatalf("the lock holds %q", got)
		}
		heir := ticket.Renew()
		if run(token, heir) != 2 {
			t.Fatal("not passed on")
		}
		if got := client.Get(t.Context(), "Lock:a").Val(); got != heir {
			t.Fatalf("the lock holds %q", got)
		}
		ticket.Leave()
		if ticket.Token() == heir {
			t.Error("the token is used again")
		}
		client.Del(t.Context(), "log")
		checkClean(t, client)
	})
}

// Requests that share a pipeline end with their contexts all the same.
func TestPipelinedEndsWithItsContext(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr())
	client := redis.NewClient(&redis.Options{Addr: proxy.Addr()})
	defer client.Close()
	m := newManager(t, client, Options{Pipelined: true})
	lock := mustAcquire(t, m, "a")
	mustRelease(t, lock)
	proxy.Pause()
	other := make(chan error)
	go func() { other <- second(m.Acquire(t.Context(), "b")) }()
	defer func() {
		proxy.Resume()
		if err := <-other; err != nil {
			t.Error(err)
		}
	}()
	for m.underway.Load() == 0 { // the first one has nobody to share with
		runtime.Gosched()
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- second(m.Acquire(ctx, "a")) }()
	cancel()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("acquired")
		}
	case <-time.After(client.Options().ReadTimeout):
		t.Error("it waited for the reply")
		<-ended
	}
}
