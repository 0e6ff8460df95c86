package audit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"roomd/loadtest/internal/model"
	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func newNode(t testing.TB, client redis.UniversalClient, journal int) *coordinator.Coordinator {
	return newNodeWith(t, client, coordinator.Options{Journal: journal})
}

func newNodeWith(t testing.TB, client redis.UniversalClient, opts coordinator.Options) *coordinator.Coordinator {
	t.Helper()
	opts.Rules = room.Rules{Seating: room.Capacity(6)}
	c, err := coordinator.New(client, opts)
	redistest.OK(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return c
}

func do(t testing.TB, c *coordinator.Coordinator, id string, actions ...room.Action) {
	t.Helper()
	for _, a := range actions {
		if _, err := c.Do(soon(t), id, a); err != nil {
			t.Fatalf("%s %+v: %v", room.KindOf(a), a, err)
		}
	}
}

func mustRun(t testing.TB, client redis.UniversalClient, cfg Config) *Report {
	t.Helper()
	r, err := Run(soon(t), client, cfg)
	redistest.OK(t, err)
	return r
}

// anything returns something that can be done for a user, or in spite of one.
func anything(random *rand.Rand, user, session string) room.Action {
	data := fmt.Sprintf(`{"x":%d}`, random.IntN(3))
	all := []room.Action{
		room.Join{User: user, Session: session}, room.Join{User: user, Session: session}, room.Join{User: user, Session: session}, room.Join{User: user, Session: session, Mode: room.JoinAgain},
		room.Leave{User: user, Session: session}, room.Leave{User: user, Session: session, Reason: room.ReasonTimeout}, room.Detach{User: user, Session: session}, room.Keep{User: user, Session: session},
		room.Configure{Settings: room.Settings{Capacity: 4 + random.IntN(4), History: 3 * random.IntN(3), Closed: random.IntN(3) == 0, Keep: random.IntN(3) == 0, Host: []room.Choice{"", room.HostLongest}[min(random.IntN(3), 1)]}},
		room.Ready{User: user, Session: session, Value: random.IntN(2) == 0}, room.SetMemberData{User: user, Session: session, Data: data}, room.SetData{Data: data}, room.SetData{Data: ""},
		room.Say{User: user, Session: session, Text: "hi"}, room.Deal{Hands: []room.Hand{{User: user, Data: data}}},
		room.SetTimer{Name: "turn", In: int64(random.IntN(50)), Then: room.Effect{Data: []byte(data)}}, room.SetTimer{Name: "turn", Stop: true}, room.Shuffle{Seed: random.Uint64()}, room.Reserve{Session: "party" + session, Users: []string{user}}, room.Release{Users: []string{user}},
		room.Agree{User: user, Session: session, Agreement: room.Agreement{Labels: `{"mode":"ranked"}`}},
	}
	if random.IntN(10) == 0 {
		now := time.Now().UnixMilli()
		all = []room.Action{room.Close{}, room.Unban{User: user}, room.Kick{User: user, Text: "enough"}, room.Kick{User: user, Until: now + int64(random.IntN(100))}, room.Release{Users: []string{user}}}
	}
	return all[random.IntN(len(all))]
}

// Whatever nodes write is no finding, wherever it was trimmed. An entry that is dropped, doubled or swapped with the one before is one, if it is not the
// first of what is left: the journal might have been trimmed.
func TestAudit_RealJournals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, rdb := redistest.Mini(t)
		nodes := []*coordinator.Coordinator{newNode(t, rdb, 1000), newNode(t, rdb, 1000)}
		random := rand.New(rand.NewPCG(1, 2))
		table := func() string { return fmt.Sprint("table-", random.IntN(5)) }
		for i := range 200 {
			var players sync.WaitGroup
			for n := range 6 { // some are two connections of one user
				node, id, user, session := nodes[n%2], table(), fmt.Sprint("a\"张", n%4), fmt.Sprintf("s%d.%d", n, i/20)
				action := anything(random, user, session)
				to := table()
				players.Go(func() {
					switch _, err := node.Do(t.Context(), id, action); {
					case err != nil:
					case i%5 == 4:
						_, _, _ = node.Move(t.Context(), id, to, "move"+session, user)
					}
				})
			}
			players.Wait()
			time.Sleep(time.Duration(random.IntN(50)) * time.Millisecond)
		}
		var journals strings.Builder
		for n := range 5 {
			p, err := readEnd(t.Context(), rdb, keysOf(rdb, "", fmt.Sprint("table-", n)), "-", 1001)
			redistest.OK(t, err)
			for i, e := range p.entries {
				journals.WriteString(e.commit)
				if found := judge(p.entries[i:], p.end); len(found) > 0 {
					t.Fatalf("from entry %d of\n%q\nwith %v\n%s", i+1, p.entries, *p.end, found)
				}
				if i == 0 {
					continue
				}
				damaged := [][]raw{slices.Delete(slices.Clone(p.entries), i, i+1), slices.Insert(slices.Clone(p.entries), i, e), slices.Clone(p.entries)}
				damaged[2][i-1], damaged[2][i] = e, p.entries[i-1]
				if found := judge(damaged[i%3], p.end); len(found) == 0 {
					t.Errorf("nothing is found at entry %d of\n%q", i+1, damaged[i%3])
				}
			}
		}
		for _, kind := range []room.Kind{
			room.KindJoin, room.KindLeave, "replace", "away", "back", "seat", "member", "private", "settings",
			"defaults", "data", room.KindMessage, "ban", "timer", room.KindCountdown, "host", "agree",
		} {
			if !strings.Contains(journals.String(), `"type":"`+string(kind)+`"`) {
				t.Errorf("no %s in the journals", kind)
			}
		}
	})
}

// judge replays entries, and compares the outcome.
func judge(entries []raw, end *model.Final) (found []model.Finding) {
	j := model.NewJournal("42", func(f model.Finding) { found = append(found, f) })
	for _, e := range entries {
		j.Next(e.id, e.commit)
	}
	j.End(end)
	return found
}

// What somebody does to Redis by hand is found.
func TestAudit_DamageByHand(t *testing.T) {
	rdb := redistest.Start(t).Client()
	c := newNode(t, rdb, 100)
	nth := func(key string, n int64) string { return rdb.XRangeN(t.Context(), key, "-", "+", n).Val()[n-1].ID }
	for i, test := range []struct {
		damage func(users, meta, log string)
		want   []model.Rule
	}{
		{func(users, _, _ string) {
			rdb.HSet(t.Context(), users, "x", `{"seat":5,"session":"s","node":"n","at":1}`)
		}, []model.Rule{model.RuleCount, model.RuleMember}},
		{func(users, _, _ string) { rdb.HDel(t.Context(), users, "a") }, []model.Rule{model.RuleCount, model.RuleMember}},
		{func(_, meta, _ string) { rdb.HSet(t.Context(), meta, "version", "2") }, []model.Rule{model.RulePosition}},
		{func(_, meta, _ string) { rdb.HDel(t.Context(), meta, "settings") }, []model.Rule{model.RuleSettings}},
		{func(users, meta, _ string) { rdb.Del(t.Context(), users, meta) }, []model.Rule{model.RulePosition}},
		{func(_, _, log string) { rdb.XDel(t.Context(), log, nth(log, 3)) }, []model.Rule{model.RuleGap}},
		{func(_, _, log string) { rdb.XDel(t.Context(), log, nth(log, 4)) }, []model.Rule{model.RuleGap}},
		{func(_, _, log string) {
			rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: log, Values: []string{"commit", "{}"}})
		}, []model.Rule{model.RuleEntry}},
		{func(_, _, log string) {
			rdb.Del(t.Context(), log)
			rdb.Set(t.Context(), log, "x", 0)
		}, []model.Rule{model.RuleEntry}},
	} {
		id := fmt.Sprint("table-", i)
		do(t, c, id, room.Join{User: "a", Session: "s"}, room.Join{User: "b", Session: "s"}, room.Join{User: "c", Session: "s"}, room.Leave{User: "b", Session: "s"})
		if r := mustRun(t, rdb, Config{Rooms: id}); !r.Clean() || r.Commits != 4 || r.Rooms != 1 {
			t.Fatalf("%+v", *r)
		}
		test.damage("Room:"+id+":Users", "Room:"+id+":Meta", "Room:"+id+":Log")
		r := mustRun(t, rdb, Config{Rooms: id})
		var rules []model.Rule
		for _, f := range r.Findings {
			rules = append(rules, f.Rule)
			if f.Room != id {
				t.Errorf("%+v", f)
			}
		}
		if !slices.Equal(rules, test.want) || r.Clean() {
			t.Errorf("damage %d: %q, want %q", i, rules, test.want)
		}
	}
	r := mustRun(t, rdb, Config{Most: 2})
	if r.Violations != 11 || len(r.Findings) != 2 {
		t.Errorf("%d findings, %d of them shown", r.Violations, len(r.Findings))
	}
}

// Nodes with and without a journal leave a gap. Rooms without one are counted and named, and
// only rooms of the pattern are audited.
func TestAudit_NoJournal(t *testing.T) {
	rdb := redistest.Start(t).Client()
	with, without := newNode(t, rdb, 100), newNode(t, rdb, 0)
	do(t, with, "table-1", room.Join{User: "a", Session: "s"})
	do(t, without, "table-1", room.Join{User: "b", Session: "s"})
	r := mustRun(t, rdb, Config{})
	if len(r.Findings) != 1 || r.Findings[0].Rule != model.RuleGap || r.Findings[0].Entry != "" {
		t.Errorf("the journal ends early: %+v", *r)
	}
	do(t, with, "table-1", room.Join{User: "c", Session: "s"})
	if r = mustRun(t, rdb, Config{}); len(r.Findings) != 1 || r.Findings[0].Rule != model.RuleGap || !strings.Contains(r.Findings[0].Other.Says, "--journal") {
		t.Errorf("the journal has a gap: %+v", *r)
	}
	do(t, without, "other", room.Join{User: "a", Session: "s"})
	do(t, with, "table-2", room.Join{User: "a", Session: "s"})
	for pattern, want := range map[string]string{"": "2 1 [other]", "table-2": "1 0 []", "o*": "0 1 [other]", "table-[0-1]": "1 0 []", "none": "0 0 []"} {
		r := mustRun(t, rdb, Config{Rooms: pattern})
		if got := fmt.Sprint(r.Rooms, r.WithoutJournal, r.Unjournaled); got != want {
			t.Errorf("%s: %s, want %s", pattern, got, want)
		}
	}
	var b strings.Builder
	if err := mustRun(t, rdb, Config{}).WriteSummary(&b); err != nil || !strings.Contains(b.String(), "no journal  1 rooms, which were not audited: other\n") {
		t.Errorf("%v:\n%s", err, &b)
	}
}

// Where Redis has lost some of a room, a new epoch begins, and the audit says only that.
func TestAudit_LossesAreNoFinding(t *testing.T) {
	rdb := redistest.Start(t).Client()
	c := newNode(t, rdb, 100)
	do(t, c, "42", room.Join{User: "a", Session: "s"}, room.Join{User: "b", Session: "s"}, room.Configure{Settings: room.Settings{Capacity: 3}})
	rdb.HDel(t.Context(), "Room:42:Users", "a")
	do(t, c, "42", room.Join{User: "c", Session: "s"}, room.Leave{User: "b", Session: "s"})
	if r := mustRun(t, rdb, Config{}); !r.Clean() || r.Epochs != 1 || r.Commits != 5 {
		t.Errorf("without a member: %+v", *r)
	}
	rdb.Del(t.Context(), "Room:42:Meta")
	do(t, c, "42", room.Join{User: "d", Session: "s"})
	rdb.Del(t.Context(), "Room:42:Meta", "Room:42:Users")
	do(t, c, "42", room.Join{User: "d", Session: "s"})
	if r := mustRun(t, rdb, Config{}); !r.Clean() || r.Epochs != 3 || r.Commits != 7 {
		t.Errorf("without Meta, and without the room: %+v", *r)
	}
}

// A journal that is trimmed faster than it is read is no finding.
func TestAudit_OvertakenByTrimming(t *testing.T) {
	rdb := redistest.Start(t, "--stream-node-max-entries", "1").Client()
	c := newNode(t, rdb, 1000)
	for i := range 30 {
		do(t, c, "42", room.Join{User: "a", Session: fmt.Sprint(i)})
	}
	redistest.OK(t, readScript.Load(t.Context(), rdb).Err())
	pages := 0
	rdb.AddHook(redistest.Hook{After: func(ctx context.Context, cmd redis.Cmder) error {
		if args := cmd.Args(); strings.HasPrefix(cmd.Name(), "evalsha") && len(args) > 1 && args[1] == readScript.Hash() {
			if pages++; pages == 1 {
				return rdb.XTrimMaxLen(ctx, "Room:42:Log", 5).Err()
			}
		}
		return nil
	}})
	if r := mustRun(t, rdb, Config{page: 10}); !r.Clean() || r.Middle != 1 || r.Commits >= 30 {
		t.Errorf("%+v", *r)
	}
}

func TestAudit_RedisFails(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client()
	server.Kill()
	if _, err := Run(soon(t), rdb, Config{}); err == nil {
		t.Error("no error without Redis")
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	cancel(cause)
	if _, err := Run(ctx, rdb, Config{}); !errors.Is(err, cause) {
		t.Errorf("when it was cancelled: %v", err)
	}
	for _, cfg := range []Config{{Rooms: "a b"}, {Rooms: "{a}"}, {Most: -1}} {
		if _, err := Run(soon(t), rdb, cfg); err == nil || !strings.Contains(err.Error(), "must") {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}
