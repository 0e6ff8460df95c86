package loadtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"roomd/loadtest/history"
	"roomd/loadtest/report/reporttest"
	"roomd/lockmgr/redisconn/redisurl"
	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator"
	"roomd/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRunIsConsistent(t *testing.T) {
	for name, redisURL := range map[string]func(t *testing.T) string{
		"embedded": func(*testing.T) string { return redisurl.Embedded },
		"real":     func(t *testing.T) string { return redistest.Start(t).URL() },
	} {
		t.Run(name, func(t *testing.T) {
			shown := 0
			r, err := Run(t.Context(), Config{
				Nodes: 3, Redis: redisURL(t), Clients: 60, Rooms: 3, Capacity: 25, Duration: 2 * time.Second, Mix: MixNames,
				Progress: func(Progress) { shown++ },
			})
			if err != nil {
				t.Fatal(err)
			}
			if !r.Consistent() || r.Errors > 0 || r.Unknown > 0 {
				t.Errorf("%+v", *r)
			}
			if r.Joins == 0 || r.Leaves == 0 || r.Reads == 0 || r.Refused == 0 || r.Events == 0 || shown == 0 || r.Actions <= r.Joins+r.Leaves {
				t.Errorf("something never happened: %+v", *r)
			}
			for _, o := range r.ByAction {
				t.Logf("%+v", o)
			}
			for _, action := range []string{MixReady, MixData, MixSay, actionWhisper} { // of the others there are few
				if !slices.ContainsFunc(r.ByAction, func(o Outcomes) bool { return o.Action == action && o.Done > 0 }) {
					t.Errorf("nobody did %s: %+v", action, r.ByAction)
				}
			}
		})
	}
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
	changes := r.Pending(s.Epoch, "", "").Event(id).Changes
	r.Commit(s.Epoch, "")
	_, err = u.rdb.TxPipelined(ctx, func(tx redis.Pipeliner) error {
		tx.Del(ctx, "Room:"+id+":Users")
		for _, o := range r.Snapshot().Users() {
			m, _ := r.Member(o.User)
			text, _ := json.Marshal(m)
			tx.HSet(ctx, "Room:"+id+":Users", o.User, text)
		}
		tx.HSet(ctx, "Room:"+id+":Meta", "epoch", r.Epoch, "version", r.Version, "members", r.Snapshot().Count())
		event, _ := json.Marshal(map[string]any{"epoch": r.Epoch, "version": r.Version, "changes": changes})
		tx.Publish(ctx, "Room:"+id+":Events", event)
		return nil
	})
	return room.Result{Seat: seat, Snapshot: r.Snapshot()}, err
}

// Without the lock the same checkers must see under the same load that players are lost.
func TestWithoutTheLockPlayersAreLost(t *testing.T) {
	server := redistest.Start(t)
	var targets []string
	for range 2 {
		rdb := server.Client()
		rooms, err := coordinator.New(rdb, coordinator.Options{})
		if err != nil {
			t.Fatal(err)
		}
		s, err := transport.New(&unlocked{rooms, rdb}, transport.Options{Rate: -1})
		if err != nil {
			t.Fatal(err)
		}
		web := httptest.NewServer(s.Handler())
		t.Cleanup(func() {
			_ = s.Shutdown(context.Background())
			web.Close()
			_ = rooms.Close(context.Background())
		})
		targets = append(targets, strings.Replace(web.URL, "http", "ws", 1)+"/ws")
	}
	r, err := Run(t.Context(), Config{Targets: targets, Redis: server.URL(), Clients: 40, Rooms: 2, Duration: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if r.Consistent() || r.Verdict != "inconsistent" || r.Violations.Lost == 0 || len(r.Details) == 0 {
		t.Fatalf("without the lock: %+v", *r)
	}
	var table bytes.Buffer
	if err := r.WriteTable(&table); err != nil || !strings.Contains(table.String(), r.Details[0]) {
		t.Errorf("%v: the table does not tell what was lost:\n%s", err, &table)
	}
}

// A run against a node that never does anything proves nothing.
func TestNothingDoneIsAnError(t *testing.T) {
	_, rdb := redistest.Mini(t)
	rooms, err := coordinator.New(rdb, coordinator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_ = rooms.Close(t.Context())
	s, err := transport.New(rooms, transport.Options{Rate: -1})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(s.Handler())
	defer web.Close()
	defer s.Shutdown(context.Background())
	target := strings.Replace(web.URL, "http", "ws", 1) + "/ws"
	_, err = Run(t.Context(), Config{Targets: []string{target}, Clients: 2, Rooms: 1, Duration: 100 * time.Millisecond})
	if !errors.Is(err, ErrNothingDone) || !strings.Contains(err.Error(), "unavailable") {
		t.Errorf("a closed node: %v", err)
	}
}

func TestBadConfig(t *testing.T) {
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
		if _, err := Run(t.Context(), c); err == nil || !strings.HasPrefix(err.Error(), field) {
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
	tally := newTally()
	tally.of[MixData].done.Add(3)
	tally.of[MixData].conflicts.Add(2)
	tally.of[MixKick].refused.Add(1)
	r := &Report{ByAction: tally.byAction()}
	want := []Outcomes{{Action: MixData, Done: 3, Conflicts: 2}, {Action: MixKick, Refused: 1}}
	if !slices.Equal(r.ByAction, want) || tally.actions() != 3 || tally.refused() != 3 {
		t.Errorf("got %+v, %d actions, %d refused", r.ByAction, tally.actions(), tally.refused())
	}
	var table bytes.Buffer
	if err := r.WriteTable(&table); err != nil || !strings.Contains(table.String(), "data     3        0          2        0") ||
		strings.Contains(table.String(), MixParty) {
		t.Errorf("%v, the table is\n%s", err, &table)
	}
}

// The JSON report is a contract.
func TestReportFields(t *testing.T) {
	text, err := json.Marshal(&Report{})
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"actions", "joins", "leaves", "refused", "unknown", "errors", "duration_s", "actions_per_s", "verdict"} {
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

func TestPage(t *testing.T) {
	r := &Report{Verdict: "inconsistent", Details: []string{"<b>张三</b> is missing"}, ErrorTexts: []string{"1× <no>"},
		Violations: history.Counts{Lost: 3}, ByAction: []Outcomes{{"kick", 5, 6, 7, 8}}, Latency: Latency{P999: 2.5},
		samples: []sample{{1, 10}, {2, 30}}, curve: []hdrhistogram.Bracket{{Quantile: 0, ValueAt: 1}, {Quantile: 99, ValueAt: 5}, {Quantile: 100, ValueAt: 9}}}
	var page bytes.Buffer
	if err := r.WriteHTML(&page); err != nil {
		t.Fatal(err)
	}
	got := page.String()
	reporttest.SelfContained(t, got)
	if strings.Count(got, "<svg") != 2 || strings.Contains(got, "<b>张三") || !strings.Contains(got, "张三") {
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
