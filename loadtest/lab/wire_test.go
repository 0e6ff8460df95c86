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
	lossy := faults[slices.IndexFunc(faults, func(f *fault) bool { return f.loses != nil })]
	x = newCell(&lab{redis: redistest.Start(t).Client(), run: "test"}, d, lossy, LeastSecond)
	var err error
	x.home, err = newProcess(x, "home", nil)
	redistest.OK(t, err)
	t.Cleanup(x.end)
	a, b = &caller{user: "a"}, &caller{user: "b"}
	redistest.OK(t, x.addTo(a, b))
	return x, a, b
}

// recorded fails the test unless the history of the cell is this, but for times and lists.
func recorded(t *testing.T, x *cell, want string) {
	t.Helper()
	var got []string
	for _, e := range x.events() {
		got = append(got, strings.Join(strings.Fields(e.Caller+" "+string(e.Kind)+" "+e.Owner), " "))
	}
	redistest.Equal(t, x.d.name+": recorded", strings.Join(got, " · "), want)
}

// A reply is lost once: the command runs, and the client waits in vain and sends it again.
func TestWire_LosesOneReply(t *testing.T) {
	t.Parallel()
	x, a, _ := stage(t, named("setnx"))
	a.lose(func(e effect) bool { return e.took })
	for _, tt := range []struct {
		command string
		want    int64
	}{{"SETNX lock 1", 0}, {"DEL lock", 1}, {"SETNX lock 1", 1}} {
		if n, err := a.send(t.Context(), tt.command).Int64(); n != tt.want || err != nil {
			t.Errorf("%s: %d, %v", tt.command, n, err)
		}
	}
	recorded(t, x, "a locked a · a reply lost · a unlocked a · a locked a")
}

func TestWire_Cut(t *testing.T) {
	_, a, _ := stage(t, &roomd) // whose clients soon give up
	redistest.OK(t, a.send(t.Context(), "PING").Err())
	a.process.die()
	if err := a.send(t.Context(), "PING").Err(); err == nil {
		t.Error("a dead process still reaches Redis")
	}
}

// Messages pass as they come, except while the wire holds all traffic.
func TestWire_PubSub(t *testing.T) {
	x, a, _ := stage(t, named("setnx"))
	messages := a.rdb.Subscribe(t.Context(), "news")
	defer messages.Close()
	_, err := messages.Receive(t.Context())
	redistest.OK(t, err)
	a.turn.Lock()
	redistest.OK(t, x.home.rdb.Publish(t.Context(), "news", "one").Err())
	if m, err := messages.ReceiveTimeout(t.Context(), 20*time.Millisecond); err == nil {
		t.Errorf("%v arrived while the wire held all traffic", m)
	}
	a.turn.Unlock()
	if m, err := messages.ReceiveMessage(t.Context()); err != nil || m.Payload != "one" {
		t.Errorf("%v, %v", m, err)
	}
}

// The observer records every change in Redis and its author: by what callers send, also where the lock is a field of a hash.
// Callers that lose only add to a count; the one that starts it has the lock.
func TestObserver_WhoDidWhat(t *testing.T) {
	for _, tt := range []struct{ discipline, does, want string }{
		{"get-compare-del", `a SET lock a's PX 60000 · b PEXPIRE lock 120000 · b SET list ["x"] · b DEL lock · b SET lock b's PX 30 · waits · a SET lock b's`,
			"a locked a · b stored · b unlocked a · b locked b · expired b · a locked a"}, // the last hands it on
		{"incr", "a INCR lock · b INCR lock · b INCR lock · a DEL lock · b INCR lock", "a locked a · a unlocked a · b locked b"},
		{"hsetnx", "a HSETNX locks lock 1 · a HDEL locks lock", "a locked a · a unlocked a"},
	} {
		x, a, b := stage(t, named(tt.discipline))
		for does := range strings.SplitSeq(tt.does, " · ") {
			switch who, command, _ := strings.Cut(strings.ReplaceAll(does, "list", x.listKey), " "); who {
			case "waits":
				x.until(t.Context(), 31*time.Millisecond, func() bool { return false })
			default:
				redistest.OK(t, map[string]*caller{"a": a, "b": b}[who].send(t.Context(), command).Err())
			}
		}
		recorded(t, x, tt.want)
	}
}

// A command that arrives after the lock's expiry takes it, also where all holders set the same value.
func TestObserver_LateTaking(t *testing.T) {
	x, a, _ := stage(t, named("set-nx-del"))
	ctx := t.Context()
	redistest.OK(t, a.send(ctx, x.d.lock.take).Err())
	o, rdb := x.observer, x.home.rdb
	_, err := o.around(ctx, "b", []string{"SET", x.lockKey, "1"}, func() error {
		rdb.Del(ctx, x.lockKey) // as if it had expired, and that were over
		o.now.expires, o.now.gone = 1, 2
		return rdb.Set(ctx, x.lockKey, 1, time.Minute).Err()
	})
	redistest.OK(t, err)
	recorded(t, x, "expired a · a locked a · b locked b") // in order of time: it had expired at the very beginning
}
