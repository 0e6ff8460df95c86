package lab

import (
	"slices"
	"strings"
	"testing"
	"time"

	"roomd/lockmgr/redistest"
)

// stage is a cell of a discipline on a Redis of its own, with two callers whose replies may get lost.
func stage(t *testing.T, d *discipline) (x *cell, a, b *caller) {
	t.Helper()
	l := &lab{redis: redistest.Start(t).Client(), run: "test"}
	lossy := faults[slices.IndexFunc(faults, func(f *fault) bool { return f.loses != nil })]
	x = newCell(l, d, lossy, LeastSecond)
	var err error
	x.home, err = newProcess(x, "home", nil)
	redistest.OK(t, err)
	t.Cleanup(x.end)
	a, err = x.caller("a", false)
	redistest.OK(t, err)
	b, err = x.caller("b", false)
	redistest.OK(t, err)
	return x, a, b
}

// recorded fails the test unless the history of the cell is this, but for times and lists.
func recorded(t *testing.T, x *cell, want ...string) {
	t.Helper()
	var got []string
	for _, e := range x.events() {
		got = append(got, strings.Join(strings.Fields(e.Caller+" "+string(e.Kind)+" "+e.Owner), " "))
	}
	if !slices.Equal(got, want) {
		t.Errorf("recorded %q, want %q", got, want)
	}
}

// do sends a command of a caller.
func do(t *testing.T, c *caller, args ...any) {
	t.Helper()
	redistest.OK(t, c.process.rdb.Do(t.Context(), args...).Err())
}

// A reply is lost once: the command runs, and the client waits in vain and sends it again.
func TestWire_LosesOneReply(t *testing.T) {
	t.Parallel()
	x, a, _ := stage(t, named("setnx"))
	rdb := a.process.rdb
	a.process.lose(func(e effect) bool { return e.took })
	if took, err := rdb.SetNX(t.Context(), x.lockKey, 1, 0).Result(); took || err != nil {
		t.Errorf("the second SETNX took: %t, %v", took, err)
	}
	do(t, a, "DEL", x.lockKey)
	if took := rdb.SetNX(t.Context(), x.lockKey, 1, 0).Val(); !took {
		t.Error("a second reply was lost")
	}
	recorded(t, x, "a locked a", "a reply lost", "a unlocked a", "a locked a")
}

func TestWire_Cut(t *testing.T) {
	_, a, _ := stage(t, &roomd) // whose clients soon give up
	do(t, a, "PING")
	a.process.die()
	if err := a.process.rdb.Ping(t.Context()).Err(); err == nil {
		t.Error("a dead process still reaches Redis")
	}
}

// Messages pass as they come, except while the wire holds all traffic.
func TestWire_PubSub(t *testing.T) {
	x, a, _ := stage(t, named("setnx"))
	messages := a.process.rdb.Subscribe(t.Context(), "news")
	defer messages.Close()
	_, err := messages.Receive(t.Context())
	redistest.OK(t, err)
	a.process.turn.Lock()
	redistest.OK(t, x.home.rdb.Publish(t.Context(), "news", "one").Err())
	if m, err := messages.ReceiveTimeout(t.Context(), 20*time.Millisecond); err == nil {
		t.Errorf("%v arrived while the wire held all traffic", m)
	}
	a.process.turn.Unlock()
	if m, err := messages.ReceiveMessage(t.Context()); err != nil || m.Payload != "one" {
		t.Errorf("%v, %v", m, err)
	}
}

// The observer records every change in Redis and its author.
func TestObserver_WhoDidWhat(t *testing.T) {
	x, a, b := stage(t, named("get-compare-del"))
	do(t, a, "SET", x.lockKey, "a's", "PX", 60_000)
	do(t, b, "PEXPIRE", x.lockKey, 120_000)
	do(t, b, "SET", x.listKey, `["x"]`)
	do(t, b, "DEL", x.lockKey)
	do(t, b, "SET", x.lockKey, "b's", "PX", 30)
	x.until(t.Context(), 31*time.Millisecond, func() bool { return false })
	do(t, a, "SET", x.lockKey, "b's") // hands it on
	recorded(t, x, "a locked a", "b stored", "b unlocked a", "b locked b", "expired b", "a locked a")
}

// Callers that lose only add to the count. The one that starts a count has the lock.
func TestObserver_Counts(t *testing.T) {
	x, a, b := stage(t, named("incr"))
	do(t, a, "INCR", x.lockKey)
	do(t, b, "INCR", x.lockKey)
	do(t, b, "INCR", x.lockKey)
	do(t, a, "DEL", x.lockKey)
	do(t, b, "INCR", x.lockKey)
	recorded(t, x, "a locked a", "a unlocked a", "b locked b")
}

// The observer sees a lock that is a field of a hash, too.
func TestObserver_Hash(t *testing.T) {
	x, a, _ := stage(t, named("hsetnx"))
	if o, err := x.d.lock.ask(t.Context(), a); o != acquired || err != nil {
		t.Fatal(o, err)
	}
	redistest.OK(t, x.d.lock.unlock(t.Context(), a))
	recorded(t, x, "a locked a", "a unlocked a")
}

// A command that arrives after the lock's expiry takes it, also where all holders set the same value.
func TestObserver_LateTaking(t *testing.T) {
	x, a, _ := stage(t, named("set-nx-del"))
	ctx := t.Context()
	if o, err := x.d.lock.ask(ctx, a); o != acquired || err != nil {
		t.Fatal(o, err)
	}
	o, rdb := x.observer, x.home.rdb
	_, err := o.around(ctx, "b", []string{"SET", x.lockKey, "1"}, func() error {
		rdb.Del(ctx, x.lockKey) // as if it had expired, and that were over
		o.now.expires, o.now.gone = 1, 2
		return rdb.Set(ctx, x.lockKey, 1, time.Minute).Err()
	})
	redistest.OK(t, err)
	recorded(t, x, "expired a", "a locked a", "b locked b") // in order of time: it had expired at the very beginning
}
