package cluster

import (
	"cmp"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"roomd/room"
)

// Settings should be the same on all nodes that share a Redis. Each node writes its own into its lease.
type Settings struct {
	LockTTL, NodeTTL, Grace time.Duration
	Seats                   int // of a room
	Duplicate               room.Duplicate
	Journal                 int    // how many commits a room keeps
	Feed                    int    // how many commits of all rooms are kept
	Rules                   string // [room.Rules.ID]

	partial bool // from a lease of an older version: only NodeTTL and Grace are known
}

// standard is the value of Settings.Rules for the zero room.Rules.
var standard = room.Rules{}.ID()

// inLease encodes s as the last field of a lease. NodeTTL and Grace have fields of their own before it.
func (s Settings) inLease() string {
	text := fmt.Sprintf("lock=%d,seats=%d,duplicate=%d", s.LockTTL.Milliseconds(), s.Seats, s.Duplicate)
	if s.Journal > 0 {
		text += fmt.Sprintf(",journal=%d", s.Journal)
	}
	if s.Feed > 0 {
		text += fmt.Sprintf(",feed=%d", s.Feed)
	}
	if s.Rules != standard {
		text += ",rules=" + s.Rules
	}
	return text
}

func parseSettings(text string) Settings {
	var lock int64
	var s Settings
	if _, err := fmt.Sscanf(text, "lock=%d,seats=%d,duplicate=%d", &lock, &s.Seats, &s.Duplicate); err != nil {
		return Settings{partial: true}
	}
	if _, journal, ok := strings.Cut(text, ",journal="); ok {
		_, _ = fmt.Sscan(journal, &s.Journal) // 0 if unreadable: then the log shows the difference
	}
	if _, feed, ok := strings.Cut(text, ",feed="); ok {
		_, _ = fmt.Sscan(feed, &s.Feed)
	}
	_, rules, _ := strings.Cut(text, ",rules=")
	s.Rules = cmp.Or(rules, standard)
	s.LockTTL = time.Duration(lock) * time.Millisecond
	return s
}

// named returns the settings that are known, each with the name of its flag.
func (s Settings) named() [][2]string {
	all := [][2]string{{"node-ttl", s.NodeTTL.String()}, {"grace", s.Grace.String()}}
	if s.partial {
		return all
	}
	return append(all, [][2]string{{"lock-ttl", s.LockTTL.String()}, {"capacity", strconv.Itoa(s.Seats)},
		{"journal", strconv.Itoa(s.Journal)}, {"feed", strconv.Itoa(s.Feed)}, {"rules", s.Rules},
		{"duplicate", duplicateNames[s.Duplicate]}}...)
}

// Differences lists the settings in which other differs from s, by the names of the flags; "" if none does.
func (s Settings) Differences(other Settings) string {
	var found []string
	mine, others := s.named(), other.named()
	for i := range min(len(mine), len(others)) {
		if mine[i] != others[i] {
			found = append(found, fmt.Sprintf("%s %s instead of %s", mine[i][0], others[i][1], mine[i][1]))
		}
	}
	return strings.Join(found, ", ")
}

// Strings returns the settings by the names of the flags, with _ instead of -.
func (s Settings) Strings() map[string]string {
	all := make(map[string]string)
	for _, one := range s.named() {
		all[strings.ReplaceAll(one[0], "-", "_")] = one[1]
	}
	return all
}

var duplicateNames = map[room.Duplicate]string{room.Replace: "replace", room.Reject: "reject"}

// Lease is the content of a lease.
type Lease struct {
	Settings Settings
	Address  string // empty if the node has none
}

// ParseLease reads "<heartbeat> <TTL> <grace> <address> <settings>", if lease is that. Leases of older versions lack
// the settings, or the address as well.
func ParseLease(lease string) (l Lease, ok bool) {
	parts := append(strings.SplitN(lease, " ", 5), "", "")
	if len(parts) < 5 {
		return l, false
	}
	var ms [3]int64
	for i := range ms {
		var err error
		if ms[i], err = strconv.ParseInt(parts[i], 10, 64); err != nil {
			return l, false
		}
	}
	l.Address, l.Settings = parts[3], parseSettings(parts[4])
	l.Settings.NodeTTL, l.Settings.Grace = time.Duration(ms[1])*time.Millisecond, time.Duration(ms[2])*time.Millisecond
	return l, true
}

type peers struct {
	log  *slog.Logger
	mine Settings

	mu   sync.Mutex
	told map[string]bool // guarded by mu: differences already logged
}

// met logs how the settings in a new node's lease differ from this node's. It logs equal differences once: when all
// other nodes restart with another setting, one line says so.
func (p *peers) met(node string, l Lease) {
	differences := p.mine.Differences(l.Settings)
	if differences == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.told[differences] {
		return
	}
	if p.told == nil {
		p.told = make(map[string]bool)
	}
	p.told[differences] = true
	p.log.Warn("another node has other settings", "node", node, "address", l.Address, "it_has", differences)
}
