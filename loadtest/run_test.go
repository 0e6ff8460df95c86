package loadtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"roomd/loadtest/audit"
	"roomd/loadtest/check"
	"roomd/loadtest/internal/tally"
	"roomd/loadtest/report"
	"roomd/loadtest/report/reporttest"
	"roomd/lockmgr/redisconn/redisurl"
	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator"
	"roomd/transport"
	"roomd/transport/auth"
	"roomd/transport/node"
	"roomd/transport/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// An audit beside finds nothing, while the load goes on and afterwards.
func TestRun_Consistent(t *testing.T) {
	for name, redisURL := range map[string]func(t *testing.T) string{
		"embedded": func(*testing.T) string { return redisurl.Embedded },
		"real":     func(t *testing.T) string { return redistest.Start(t).URL() },
		"cluster": func(t *testing.T) string {
			redistest.Thorough(t)
			return "redis+cluster://" + strings.Join(redistest.StartCluster(t).Addrs(), ",")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			never, url, audited := "anything", redisURL(t), func() {}
			if url != redisurl.Embedded {
				db, err := redisurl.Open(url)
				redistest.OK(t, err)
				client := db.NewClient()
				t.Cleanup(func() { _ = client.Close(); db.Close() })
				audited = func() {
					if found, err := audit.Run(t.Context(), client, audit.Config{}); err != nil || found.Rooms > 0 && found.Commits == 0 || !found.Clean() {
						t.Errorf("audit: %v, %+v", err, found)
					}
				}
			}
			for range 5 { // on a machine with other work, little happens in a second
				shown := 0
				r, err := Run(t.Context(), Config{
					Nodes: 3, Redis: url, Clients: 60, Rooms: 3, Capacity: 25, Duration: time.Second, Mix: MixNames,
					Progress: func(time.Duration, bool, string) { shown++; audited() },
				})
				redistest.OK(t, err)
				audited()
				if !r.Consistent() || r.Errors > 0 || r.Unknown > 0 || shown == 0 || r.Actions < r.Joins+r.Leaves || r.Watched > 0 ||
					r.Linearized == 0 || len(r.Strange) > 0 { // a new kind of change has a case in loadtest/internal/model
					t.Errorf("%+v", *r)
				}
				if never = neverHappened(r); never == "" {
					return
				}
			}
			t.Errorf("never happened: %s", never)
		})
	}
}

// neverHappened returns what a run should have, and has not.
func neverHappened(r *Report) string {
	for what, n := range map[string]int64{"joins": r.Joins, "leaves": r.Leaves, "reads": r.Reads, "refusals": r.Refused, "events": r.Events} {
		if n == 0 {
			return what
		}
	}
	for _, action := range []string{MixReady, MixData, MixPrivate, MixSay, MixMatch} { // of the others there are few
		if !slices.ContainsFunc(r.ByAction, func(o Outcomes) bool { return o.Action == action && o.Done > 0 }) {
			return action
		}
	}
	return ""
}

// unlocked is a coordinator without a lock: the same rules, and the article's
// read-modify-write of the whole list.
type unlocked struct {
	*coordinator.Coordinator
	rdb *redis.Client
}

func (u *unlocked) Do(ctx context.Context, id string, a room.Action) (room.Result, error) {
	s, err := u.Read(ctx, id)
	if err != nil {
		return room.Result{}, err
	}
	if s.Epoch == "" {
		s.Epoch = "the one and only"
	}
	members := make(map[string]room.Member)
	for user, text := range u.rdb.HGetAll(ctx, "Room:"+id+":Users").Val() {
		var m room.Member
		if err := json.Unmarshal([]byte(text), &m); err != nil {
			return room.Result{}, err
		}
		members[user] = m
	}
	r := room.NewRoom(id, room.Position{Epoch: s.Epoch, Version: s.Version}, members)
	seat, err := r.Apply(a, room.Rules{}, room.Origin{})
	if err != nil || !r.Changed() {
		return room.Result{Seat: seat, Snapshot: r.Snapshot()}, err
	}
	changes := r.Pending(s.Epoch, "").Event(id).Changes
	r.Commit(s.Epoch, "")
	_, err = u.rdb.TxPipelined(ctx, func(tx redis.Pipeliner) error {
		tx.Del(ctx, "Room:"+id+":Users")
		for _, o := range r.Snapshot().Users() {
			m, _ := r.Member(o.User)
			text, _ := json.Marshal(m)
			tx.HSet(ctx, "Room:"+id+":Users", o.User, text)
		}
		tx.HSet(ctx, "Room:"+id+":Meta", "epoch", r.Epoch, "version", r.Version, "members", r.Snapshot().Count())
		updates := make([]room.Update, len(changes)) // as an event has them
		for i, c := range changes {
			updates[i] = room.Update{Type: c.Type, User: c.User, Seat: c.Seat, Reason: c.Reason}
		}
		event, _ := json.Marshal(map[string]any{"epoch": r.Epoch, "version": r.Version, "changes": updates})
		tx.Publish(ctx, "Room:"+id+":Events", event)
		return nil
	})
	return room.Result{Seat: seat, Snapshot: r.Snapshot()}, err
}

// Without the lock the same checkers must see under the same load that players are lost.
func TestRun_WithoutTheLock(t *testing.T) {
	t.Parallel() // it mostly waits
	server := redistest.Start(t)
	var targets []string
	for range 2 {
		rdb := server.Client()
		rooms, err := coordinator.New(rdb, coordinator.Options{})
		redistest.OK(t, err)
		s, err := transport.New(&unlocked{rooms, rdb}, transport.Options{Rate: -1})
		redistest.OK(t, err)
		web := httptest.NewServer(s.Handler())
		t.Cleanup(func() {
			_ = s.Shutdown(context.Background())
			web.Close()
			_ = rooms.Close(context.Background())
		})
		targets = append(targets, strings.Replace(web.URL, "http", "ws", 1)+"/ws")
	}
	var r *Report
	for range 20 { // on a machine with other work, few players meet
		var err error
		r, err = Run(t.Context(), Config{Targets: targets, Redis: server.URL(), Clients: 20, Rooms: 2, Duration: 300 * time.Millisecond, catchUp: 100 * time.Millisecond})
		redistest.OK(t, err)
		if r.Violations["lost"] > 0 {
			break
		}
	}
	if r.Verdict != Inconsistent || r.Violations["lost"] == 0 || len(r.Details) == 0 {
		t.Fatalf("without the lock: %+v", *r)
	}
	var table bytes.Buffer
	if err := r.WriteTable(&table); err != nil || !strings.Contains(table.String(), r.Details[0]) {
		t.Errorf("%v: the table does not tell what was lost:\n%s", err, &table)
	}
}

// A run against a node that never does anything proves nothing.
func TestRun_NothingDone(t *testing.T) {
	_, rdb := redistest.Mini(t)
	rooms, err := coordinator.New(rdb, coordinator.Options{})
	redistest.OK(t, err)
	_ = rooms.Close(t.Context())
	s, err := transport.New(rooms, transport.Options{Rate: -1})
	redistest.OK(t, err)
	web := httptest.NewServer(s.Handler())
	defer web.Close()
	defer s.Shutdown(context.Background())
	target := strings.Replace(web.URL, "http", "ws", 1) + "/ws"
	_, err = Run(t.Context(), Config{Targets: []string{target}, Clients: 2, Rooms: 1, Duration: 100 * time.Millisecond})
	if !errors.Is(err, ErrNothingDone) || !strings.Contains(err.Error(), "unavailable") {
		t.Errorf("a closed node: %v", err)
	}
}

func TestConfig_Bad(t *testing.T) {
	good := Config{Nodes: 1, Redis: redisurl.Embedded, Clients: 1, Rooms: 1, Duration: time.Second}
	for field, spoil := range map[string]func(c *Config){
		"clients":  func(c *Config) { c.Clients = 0 },
		"rooms":    func(c *Config) { c.Rooms = 0 },
		"nodes":    func(c *Config) { c.Nodes = 0 },
		"capacity": func(c *Config) { c.Capacity = -1 },
		"duration": func(c *Config) { c.Duration = 0 },
		"target":   func(c *Config) { c.Targets = []string{"http://x/ws"} },
		"redis":    func(c *Config) { c.Redis = "nonsense" },
		"mix":      func(c *Config) { c.Mix = []string{MixSay, "dance"} },
	} {
		c := good
		spoil(&c)
		if _, err := Run(t.Context(), c); err == nil || !strings.HasPrefix(err.Error(), "--"+field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestNamesAreValidAndUnlikeEachOther(t *testing.T) {
	seen := map[string]bool{}
	longest := 0
	for i := range 600 {
		typed, normal := name(i)
		if got, err := room.ParseUser(typed); err != nil || got != normal {
			t.Fatalf("%q becomes %q, %v; want %q", typed, got, err, normal)
		}
		if seen[normal] {
			t.Fatalf("%q twice", normal)
		}
		seen[normal] = true
		longest = max(longest, len([]rune(normal)))
	}
	if longest != room.MaxUserLength {
		t.Errorf("the longest name has %d characters", longest)
	}
}

// What was not tried has no line.
func TestReportOfTheMix(t *testing.T) {
	op := func(n int, op check.Op) (list []*check.Op) { return slices.Repeat([]*check.Op{&op}, n) }
	r := new(Report)
	r.count(&check.History{Ops: slices.Concat(
		op(3, check.Op{Action: check.SetData, Outcome: check.Done}), op(2, check.Op{Action: check.SetData, Outcome: check.Refused, Code: "conflict"}),
		op(1, check.Op{Action: check.Kick, Outcome: check.Refused, Code: "not_member"}), op(1, check.Op{Action: check.MoveIn, Part: true, Outcome: check.Done}),
	)}, new(tally.Tally))
	want := []Outcomes{{Action: MixData, Done: 3, Conflicts: 2}, {Action: MixKick, Refused: 1}}
	if !slices.Equal(r.ByAction, want) {
		t.Errorf("got %+v", r.ByAction)
	}
	var table bytes.Buffer
	if err := r.WriteTable(&table); err != nil || !strings.Contains(table.String(), "data     3        0          2        0") ||
		strings.Contains(table.String(), MixParty) {
		t.Errorf("%v, the table is\n%s", err, &table)
	}
}

// The JSON report is a contract.
func TestReport_Fields(t *testing.T) {
	text, err := json.Marshal(&Report{Violations: check.Count(nil)})
	redistest.OK(t, err)
	var got map[string]any
	redistest.OK(t, json.Unmarshal(text, &got))
	for _, field := range []string{"actions", "joins", "leaves", "refused", "unknown", "errors", "duration_s", "actions_per_s", "verdict", "own_cpu_s", "own_cpu_share"} {
		if _, ok := got[field]; !ok {
			t.Errorf("no field %s in %s", field, text)
		}
	}
	for field, want := range map[string][]string{
		"latency_ms": {"max", "p50", "p90", "p99", "p999"},
		"violations": {"conflict", "diverged", "duplicate", "intruder", "lost", "oversold", "phantom", "seat_clash", "torn", "version_gap"},
	} {
		inner, _ := got[field].(map[string]any)
		var names []string
		for name := range inner {
			names = append(names, name)
		}
		slices.Sort(names)
		if !slices.Equal(names, want) {
			t.Errorf("%s has %v, want %v", field, names, want)
		}
	}
}

func TestReport_Page(t *testing.T) {
	r := &Report{Verdict: "inconsistent", Details: []string{"<b>张三</b> is missing"}, ErrorTexts: []string{"1× <no>"},
		Violations: check.Counts{"lost": 3}, ByAction: []Outcomes{{"kick", 5, 6, 7, 8}}, Latency: tally.Latency{P999: 2.5},
		rate: report.Series{Points: []report.Point{{X: 0, Y: 10}, {X: 0.5, Y: 30}}}, curve: []hdrhistogram.Bracket{{Quantile: 0, ValueAt: 1}, {Quantile: 99, ValueAt: 5}, {Quantile: 100, ValueAt: 9}}}
	var page bytes.Buffer
	redistest.OK(t, r.WriteHTML(&page))
	got := page.String()
	reporttest.SelfContained(t, got)
	if strings.Count(got, `class="chart"`) != 2 || strings.Contains(got, "<b>张三") || !strings.Contains(got, "张三") {
		t.Errorf("the page is\n%s", got)
	}
	for _, row := range []string{"<tr class=\"bad\"><th scope=\"row\">lost</th><td>3</td>", "<tr class=\"good\"><th scope=\"row\">torn</th><td>0</td>",
		"<th scope=\"row\">kick</th><td>5</td><td>6</td><td>7</td><td>8</td>", "<th scope=\"row\">p99.9</th><td>2.50 ms</td>", "1× &lt;no&gt;"} {
		if !strings.Contains(got, row) {
			t.Errorf("no %s in\n%s", row, got)
		}
	}
	if err := (&Report{}).WriteHTML(io.Discard); err != nil {
		t.Errorf("an empty report: %v", err)
	}
}

// A node as people start one: it has a limit of requests, or a key, and no journal. With a Redis the administrator acts, too, and a second run
// there meets nothing of the first.
func TestRun_Targets(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	redistest.OK(t, os.WriteFile(secret, []byte(strings.Repeat("s", 32)), 0o600))
	verifier, err := auth.New(auth.SecretFile(secret), auth.Options{})
	redistest.OK(t, err)
	for what, tt := range map[string]struct {
		serve   transport.Options
		journal int
		redis   bool
		secret  string
	}{
		"a limit":           {transport.Options{Rate: 20, Burst: 20, Grace: -1}, 0, false, ""},
		"a key":             {transport.Options{Rate: -1, Grace: -1, Auth: verifier}, 0, false, secret},
		"a journal":         {transport.Options{Rate: -1, Grace: -1}, 100_000, true, ""},
		"part of a journal": {transport.Options{Rate: -1, Grace: -1}, 50, true, ""},
		"Redis, no journal": {transport.Options{Rate: -1, Grace: -1}, 0, true, ""},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			db, err := redisurl.Open(server.URL())
			redistest.OK(t, err)
			n, err := node.Start(t.Context(), node.Config{Listen: "127.0.0.1:0", Redis: db, Room: coordinator.Options{Journal: tt.journal}, Serve: tt.serve})
			redistest.OK(t, err)
			defer n.Shutdown(context.Background())
			whole, watched := tt.journal > 1000, 0
			// On a machine with other work, little happens in a run, and the short journal has all of it.
			for i := 0; i < 2 || !whole && watched == 0 && i < 20; i++ {
				cfg := Config{
					Targets: []string{n.URL()}, Clients: 10, Rooms: 2, Duration: 700 * time.Millisecond, Mix: MixNames,
					SecretFile: tt.secret,
				}
				if tt.redis {
					cfg.Redis = server.URL()
				}
				r, err := Run(t.Context(), cfg)
				if err != nil || !r.Consistent() || r.Errors > 0 {
					t.Fatalf("%v, %+v", err, r)
				}
				watched += r.Watched
			}
			if (watched == 0) != whole {
				t.Errorf("in %d rooms what watchers were told stood for the journal", watched)
			}
			if whole {
				found, err := audit.Run(t.Context(), server.Client(), audit.Config{})
				if err != nil || found.Rooms < 2 || !found.Clean() {
					t.Errorf("%v, %+v", err, found)
				}
			}
		})
	}
}

// The journal of a room that is forgotten, and perhaps begins anew, was read before.
func TestJournal_Forgotten(t *testing.T) {
	_, rdb := redistest.Mini(t)
	s, j := &Store{Client: rdb}, new(journal)
	for version := 1; version <= 3; version++ {
		for range 2 { // read again, nothing comes twice
			redistest.OK(t, j.read(t.Context(), s, "42"))
		}
		if version == 3 {
			redistest.OK(t, rdb.Del(t.Context(), s.Key("42", "Log")).Err())
		}
		redistest.OK(t, rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: s.Key("42", "Log"), ID: fmt.Sprint(version, "-0"), Values: []string{"commit", fmt.Sprintf(`{"version":%d}`, version)}}).Err())
	}
	redistest.OK(t, j.read(t.Context(), s, "42"))
	if len(j.entries) != 3 || j.entries[0].Version != 1 || j.entries[2].Version != 3 {
		t.Errorf("%+v", j.entries)
	}
}

// What a failover loses of a journal that was read before is no part of it, and what replaces it is.
func TestJournal_LosesItsEnd(t *testing.T) {
	_, rdb := redistest.Mini(t)
	s, j := &Store{Client: rdb}, new(journal)
	is := func(entries ...string) {
		t.Helper()
		redistest.OK(t, rdb.Del(t.Context(), s.Key("42", "Log")).Err())
		for _, entry := range entries {
			id, mark, _ := strings.Cut(entry, " ")
			redistest.OK(t, rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: s.Key("42", "Log"), ID: id,
				Values: []string{"commit", fmt.Sprintf(`{"mark":%q}`, mark)}}).Err())
		}
		redistest.OK(t, j.read(t.Context(), s, "42"))
	}
	is("1-0 a")
	is("1-0 a", "3-0 lost")
	is("1-0 a", "2-0 b")
	is("1-0 a", "2-0 b", "4-0 lost", "5-0 lost")
	is("1-0 a", "2-0 b", "4-1 c")
	is() // forgotten
	var marks []string
	for _, e := range j.entries {
		marks = append(marks, e.Mark)
	}
	redistest.Equal(t, "the journal has", fmt.Sprint(marks), "[a b c]")
}

// Who is told to wait waits for so long, and keeps to it.
func TestTold(t *testing.T) {
	for message, want := range map[string]time.Duration{"a may send 20 requests a second; wait 48ms": 48 * time.Millisecond, "too many": time.Millisecond} {
		if got, limited := told(protocol.NewError(protocol.CodeRateLimited, "%s", message)); got != want || !limited {
			t.Errorf("%s: %v, %v", message, got, limited)
		}
	}
	if _, limited := told(protocol.NewError(protocol.CodeRoomFull, "wait 1s")); limited {
		t.Error("a full room is no limit")
	}
}

// The feed names default choices, and the journal leaves them out: they are the same settings.
func TestChangeOf_Settings(t *testing.T) {
	settings := room.Settings{Capacity: 8}
	text, err := json.Marshal(settings)
	redistest.OK(t, err)
	stored, err := entryOf(fmt.Sprintf(`{"changes":[{"type":"settings","settings":%s}]}`, text))
	redistest.OK(t, err)
	named := settings.Named()
	if told := ChangeOf(&protocol.Change{Settings: &named}); *told.Settings != *stored.Changes[0].Settings {
		t.Errorf("%+v, and not %+v", *told.Settings, *stored.Changes[0].Settings)
	}
}

// The report says when the players themselves were what was measured.
func TestReport_Bottleneck(t *testing.T) {
	for want, r := range map[string]*Report{
		"processor   1.0 s, 65 % of the machine's, by the players' process: they are the bottleneck": {OwnCPU: 1, OwnShare: 0.65},
		"processor   1.0 s, 20 % of the machine's, by the players' process\n":                        {OwnCPU: 1, OwnShare: 0.2},
		"processor   1.0 s, 65 % of the machine's, by players and nodes":                             {OwnCPU: 1, OwnShare: 0.65, ownNodes: true},
	} {
		var table bytes.Buffer
		if err := r.WriteTable(&table); err != nil || !strings.Contains(table.String(), want) {
			t.Errorf("%v, no %q in\n%s", err, want, &table)
		}
	}
}
