package audit

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"roomd/loadtest/internal/model"
	"roomd/lockmgr/redisconn"
)

// Report is the result of an audit.
type Report struct {
	Pattern string `json:"pattern"` // selects the rooms
	Rooms   int    `json:"rooms"`   // with a replayed journal
	Commits int    `json:"commits"` // replayed
	// rooms whose journal does not start with the room: it was trimmed, or switched on later
	Middle int `json:"middle"`
	// epochs that followed another one, because Redis had lost data
	Epochs int `json:"epochs"`
	// commits that a room had lost when such an epoch began
	Lost           uint64             `json:"lost"`
	Gone           int                `json:"gone"`            // rooms that expired during the audit
	WithoutJournal int                `json:"without_journal"` // rooms without a journal
	Unjournaled    []string           `json:"unjournaled"`     // some of them, by id
	Violations     int                `json:"violations"`      // number of findings
	Rules          map[model.Rule]int `json:"rules"`           // number of findings by rule
	Findings       []model.Finding    `json:"findings"`        // the first findings, by room
	// kinds of changes that the audit does not know and ignores
	Strange []string `json:"unknown_changes,omitempty"`
	Seconds float64  `json:"seconds"` // how long the audit took
}

// Clean reports whether there is no finding.
func (r *Report) Clean() bool { return r.Violations == 0 }

// WriteFindings writes the findings as text.
func (r *Report) WriteFindings(w io.Writer) error {
	var b strings.Builder
	for _, f := range r.Findings {
		b.WriteString(f.String())
	}
	if more := r.Violations - len(r.Findings); more > 0 {
		fmt.Fprintf(&b, "%d more findings are not shown\n", more)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteSummary writes the numbers of the audit, and the verdict.
func (r *Report) WriteSummary(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "journals    %d rooms, %d commits in %.1f s (%.0f/s)\n", r.Rooms, r.Commits, r.Seconds,
		float64(r.Commits)/max(r.Seconds, 0.001))
	if r.Middle > 0 {
		fmt.Fprintf(&b, "trimmed     %d of them begin in the middle: of what was before, only the outcome is known\n",
			r.Middle)
	}
	if r.Epochs > 0 {
		fmt.Fprintf(&b, "losses      %d new epochs: Redis had lost something, %d commits of which journals know\n",
			r.Epochs, r.Lost)
	}
	if r.Gone > 0 {
		fmt.Fprintf(&b, "expired     %d rooms, meanwhile\n", r.Gone)
	}
	if r.WithoutJournal > 0 {
		more := ""
		if n := r.WithoutJournal - len(r.Unjournaled); n > 0 {
			more = fmt.Sprintf(" and %d more", n)
		}
		fmt.Fprintf(&b, "no journal  %d rooms, which were not audited: %s%s\n", r.WithoutJournal,
			strings.Join(r.Unjournaled, " "), more)
	}
	if len(r.Strange) > 0 {
		fmt.Fprintf(&b, "unknown     changes that change nothing, for all that this program knows: %s\n",
			strings.Join(r.Strange, " "))
	}
	for _, rule := range slices.Sorted(maps.Keys(r.Rules)) {
		fmt.Fprintf(&b, "finding     %s: %d\n", rule, r.Rules[rule])
	}
	verdict := "clean"
	switch {
	case !r.Clean():
		verdict = "NOT CLEAN"
	case r.Rooms == 0:
		verdict = "nothing to audit: no room has a journal; start nodes with --journal"
	}
	fmt.Fprintf(&b, "verdict     %s\n", verdict)
	_, err := io.WriteString(w, b.String())
	return err
}

var (
	//go:embed lua/read.lua
	readLua    string
	readScript = redis.NewScript(readLua)
)

// keysOf returns the keys of a room: its journal, its members, Meta, and the messages that it keeps.
func keysOf(client redis.UniversalClient, prefix, id string) []string {
	if _, cluster := client.(*redis.ClusterClient); cluster {
		id = "{" + id + "}"
	}
	room := prefix + "Room:" + id
	return []string{room + ":Log", room + ":Users", room + ":Meta", room + ":Said"}
}

// raw is an entry of the stream.
type raw struct{ id, commit string }

// page is a part of a journal, and at its end also the room.
type page struct {
	entries []raw
	full    bool         // there may be more
	end     *model.Final // nil if it was not read
}

// readEntries reads up to n entries, starting with the entry from if that is still there.
func readEntries(ctx context.Context, client redis.UniversalClient, keys []string, from string, n int) (*page, error) {
	var messages []redis.XMessage
	err := redisconn.UntilMoved(ctx, func() (err error) {
		messages, err = client.XRangeN(ctx, keys[0], from, "+", int64(n)).Result()
		redisconn.SeekMaster(ctx, client, err)
		return err
	})
	p := &page{full: len(messages) >= n}
	for _, m := range messages {
		text, _ := m.Values["commit"].(string)
		p.entries = append(p.entries, raw{m.ID, text})
	}
	return p, err
}

// readEnd is like readEntries. If there are less than n entries, it also reads the room, in the same step. It
// costs Redis more for each entry.
func readEnd(ctx context.Context, client redis.UniversalClient, keys []string, from string, n int) (*page, error) {
	var reply []any
	err := redisconn.UntilMoved(ctx, func() (err error) {
		reply, err = readScript.RunRO(ctx, client, keys, from, n).Slice()
		redisconn.SeekMaster(ctx, client, err)
		return err
	})
	if err != nil {
		return nil, err
	}
	p := &page{full: len(reply) == 1}
	entries, _ := reply[0].([]any)
	for _, e := range entries {
		parts, _ := e.([]any)
		if len(parts) != 2 {
			return nil, fmt.Errorf("an entry of %s has %d parts", keys[0], len(parts))
		}
		id, _ := parts[0].(string)
		p.entries = append(p.entries, raw{id, pairs(parts[1])["commit"]})
	}
	if len(reply) == 5 {
		p.end = &model.Final{Users: pairs(reply[1]), Meta: pairs(reply[2])}
		ttls, _ := reply[3].([]any)
		for _, ttl := range ttls {
			ms, _ := ttl.(int64)
			p.end.TTLs = append(p.end.TTLs, ms)
		}
		said, _ := reply[4].([]any)
		for _, m := range said {
			if parts, _ := m.([]any); len(parts) == 2 {
				p.end.Said = append(p.end.Said, pairs(parts[1])["message"])
			}
		}
	}
	return p, nil
}

// pairs makes a map from alternating names and values.
func pairs(reply any) map[string]string {
	flat, _ := reply.([]any)
	m := make(map[string]string, len(flat)/2)
	for i := 1; i < len(flat); i += 2 {
		name, _ := flat[i-1].(string)
		m[name], _ = flat[i].(string)
	}
	return m
}

// search returns the sorted ids of rooms that match cfg and have a key of a kind ("Log" or "Meta"). On a
// Cluster it asks each master.
func search(ctx context.Context, client redis.UniversalClient, cfg Config, kind string) ([]string, error) {
	open, end := cfg.KeyPrefix+"Room:", ":"+kind
	if _, cluster := client.(*redis.ClusterClient); cluster {
		open, end = cfg.KeyPrefix+"Room:{", "}:"+kind
	}
	found := make(map[string]bool)
	err := redisconn.Scan(ctx, client, open+cfg.Rooms+end, 0, func(_ context.Context, keys []string) error {
		for _, key := range keys {
			found[strings.TrimSuffix(strings.TrimPrefix(key, open), end)] = true
		}
		return nil
	})
	return slices.Sorted(maps.Keys(found)), err
}
