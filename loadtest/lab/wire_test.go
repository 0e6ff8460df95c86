package lab

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"roomd/loadtest/lab/anomaly"
	"roomd/lockmgr/redistest"
)

// stage is a cell of a discipline on a Redis of its own, with one caller whose
// replies may get lost.
func stage(t *testing.T, d *discipline) (*cell, *caller) {
	t.Helper()
	l := &lab{cfg: Config{}.withDefaults(), redis: redistest.Start(t).Client(), run: "test", seed: 1}
	lossy := faults[slices.IndexFunc(faults, func(f *fault) bool { return f.loses != nil })]
	x := newCell(l, d, lossy, defaultSecond)
	var err error
	if x.home, err = newProcess(x, "home", nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.end)
	c, err := x.caller(victimUser, false)
	redistest.OK(t, err)
	return x, c
}

func kinds(x *cell) map[anomaly.Kind]int {
	n := make(map[anomaly.Kind]int)
	for _, e := range x.events() {
		n[e.Kind]++
	}
	return n
}

// A reply is lost once: the command runs, and the client waits in vain and sends it again.
func TestWire_LosesOneReply(t *testing.T) {
	t.Parallel()
	x, c := stage(t, named("setnx"))
	rdb := c.process.rdb
	c.process.wire.lose(func(e effect) bool { return e.took })
	if took, err := rdb.SetNX(t.Context(), x.lockKey, 1, 0).Result(); took || err != nil {
		t.Errorf("the second SETNX took: %t, %v", took, err)
	}
	if n := kinds(x); n[anomaly.ReplyLost] != 1 || n[anomaly.Locked] != 1 {
		t.Errorf("recorded %v", n)
	}
	if err := rdb.Del(t.Context(), x.lockKey).Err(); err != nil {
		t.Error(err)
	}
	if took := rdb.SetNX(t.Context(), x.lockKey, 1, 0).Val(); !took {
		t.Error("a second reply was lost")
	}
}

func TestWire_Cut(t *testing.T) {
	_, c := stage(t, &roomd) // whose clients soon give up
	redistest.OK(t, c.process.rdb.Ping(t.Context()).Err())
	c.process.die()
	if err := c.process.rdb.Ping(t.Context()).Err(); err == nil {
		t.Error("a dead process still reaches Redis")
	}
}

// Messages pass as they come, except while the wire holds all traffic.
func TestWire_PubSub(t *testing.T) {
	x, c := stage(t, named("setnx"))
	messages := c.process.rdb.Subscribe(t.Context(), "news")
	defer messages.Close()
	if _, err := messages.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.process.wire.turn.Lock()
	redistest.OK(t, x.home.rdb.Publish(t.Context(), "news", "one").Err())
	if m, err := messages.ReceiveTimeout(t.Context(), 20*time.Millisecond); err == nil {
		t.Errorf("%v arrived while the wire held all traffic", m)
	}
	c.process.wire.turn.Unlock()
	if m, err := messages.ReceiveMessage(t.Context()); err != nil || m.Payload != "one" {
		t.Errorf("%v, %v", m, err)
	}
}

// The observer records every change in Redis and its author.
func TestObserver_WhoDidWhat(t *testing.T) {
	x, a := stage(t, named("get-compare-del"))
	b, err := x.caller(joinsUser, false)
	redistest.OK(t, err)
	ctx := context.Background()
	do := func(c *caller, args ...any) {
		t.Helper()
		redistest.OK(t, c.process.rdb.Do(ctx, args...).Err())
	}
	do(a, "SET", x.lockKey, "a's", "PX", 60_000)
	do(b, "PEXPIRE", x.lockKey, 120_000)
	do(b, "PEXPIRE", x.lockKey, 180_000)
	do(b, "SET", x.listKey, `["x"]`)
	do(b, "DEL", x.lockKey)
	do(b, "SET", x.lockKey, "b's", "PX", 30)
	x.until(ctx, 31*time.Millisecond, func() bool { return false })
	do(a, "SET", x.lockKey, "b's") // hands it on
	want := []anomaly.Event{
		{Kind: anomaly.Locked, Caller: a.user, Owner: a.user},
		{Kind: anomaly.Stored, Caller: b.user},
		{Kind: anomaly.Unlocked, Caller: b.user, Owner: a.user},
		{Kind: anomaly.Locked, Caller: b.user, Owner: b.user},
		{Kind: anomaly.Expired, Owner: b.user},
		{Kind: anomaly.Locked, Caller: a.user, Owner: a.user},
	}
	got := x.events()
	if len(got) != len(want) {
		t.Fatalf("recorded %+v", got)
	}
	for i, e := range got {
		if w := want[i]; e.Kind != w.Kind || e.Caller != w.Caller || e.Owner != w.Owner {
			t.Errorf("recorded %+v, want %+v", e, w)
		}
	}
}

func events(x *cell) (kinds []string) {
	for _, e := range x.events() {
		kinds = append(kinds, strings.TrimSpace(e.Caller+" "+string(e.Kind)+" "+e.Owner))
	}
	return kinds
}

// Callers that lose only add to the count. The one that starts a count has the lock.
func TestObserver_Counts(t *testing.T) {
	x, a := stage(t, named("incr"))
	b, err := x.caller(joinsUser, false)
	redistest.OK(t, err)
	for _, step := range []struct {
		c       *caller
		command string
	}{{a, "INCR"}, {b, "INCR"}, {b, "INCR"}, {a, "DEL"}, {b, "INCR"}} {
		redistest.OK(t, step.c.process.rdb.Do(t.Context(), step.command, x.lockKey).Err())
	}
	want := []string{a.user + " locked " + a.user, a.user + " unlocked " + a.user, b.user + " locked " + b.user}
	if got := events(x); !slices.Equal(got, want) {
		t.Errorf("recorded %q, want %q", got, want)
	}
}

// The observer sees a lock that is a field of a hash, too.
func TestObserver_Hash(t *testing.T) {
	x, a := stage(t, named("hsetnx"))
	if took, err := x.d.lock.try(t.Context(), a); !took || err != nil {
		t.Fatal(took, err)
	}
	redistest.OK(t, x.d.lock.unlock(t.Context(), a))
	if got, want := events(x), []string{a.user + " locked " + a.user, a.user + " unlocked " + a.user}; !slices.Equal(got, want) {
		t.Errorf("recorded %q, want %q", got, want)
	}
}

// A command that arrives after the lock's expiry takes it, also where all holders set the
// same value.
func TestObserver_LateTaking(t *testing.T) {
	x, a := stage(t, named("set-nx-del"))
	ctx := t.Context()
	if took, err := x.d.lock.try(ctx, a); !took || err != nil {
		t.Fatal(took, err)
	}
	o, rdb := x.observer, x.home.rdb
	_, err := o.around(ctx, joinsUser, []string{"SET", x.lockKey, "1"}, func() error {
		rdb.Del(ctx, x.lockKey) // as if it had expired, and that were over
		o.now.expires, o.now.gone = 1, 2
		return rdb.Set(ctx, x.lockKey, 1, time.Minute).Err()
	})
	redistest.OK(t, err)
	var owners []string
	for _, e := range x.events() {
		owners = append(owners, string(e.Kind)+" "+e.Owner)
	}
	slices.Sort(owners)
	if want := []string{"expired " + a.user, "locked " + a.user, "locked " + joinsUser}; !slices.Equal(owners, want) {
		t.Errorf("recorded %q, want %q", owners, want)
	}
}
