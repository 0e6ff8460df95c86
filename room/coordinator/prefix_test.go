package coordinator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"roomd/lockmgr/redistest"
	"roomd/room"
)

// Three deployments share a Redis: two with prefixes of which one begins with the other, and one without. They play in rooms
// of the same ids, at the same time, by nodes of the same names, and none has a part in what another does. Each has the
// rights of its own prefix, and Redis refuses nothing; so it is found where a key or a channel has no prefix.
func TestKeyPrefix(t *testing.T) {
	redistest.Thorough(t)
	t.Parallel() // it mostly waits
	t.Run("one Redis", func(t *testing.T) { apart(t, redistest.Start(t), false) })
	t.Run("a Cluster", func(t *testing.T) { apart(t, redistest.StartClusterOfOne(t), true) })
}

func apart(t *testing.T, server *redistest.Server, cluster bool) {
	admin := server.Client()
	written := watchKeys(t, admin)
	var all []*deployment
	for _, of := range [][2]string{{"inner", "a:b:"}, {"outer", "a:"}, {"plain", ""}} {
		all = append(all, deploy(t, server, of[0], of[1], cluster))
	}
	t.Run("play", func(t *testing.T) {
		for _, d := range all {
			t.Run(d.name, func(t *testing.T) {
				t.Parallel()
				d.play(t)
			})
		}
	})
	for _, d := range all {
		d.expectOwn(t, 2)
		for _, other := range all {
			redistest.OK(t, admin.Set(t.Context(), other.key("LockRoom:", "held", ""), "held:another's", time.Minute).Err())
		}
		redistest.OK(t, admin.Del(t.Context(), d.key("LockRoom:", "held", "")).Err())
		mustDo(t, d.b, "held", room.Join{User: d.user("b"), Session: "s"})
	}
	for _, channel := range slices.Concat(admin.PubSubChannels(t.Context(), "*").Val(), admin.PubSubShardChannels(t.Context(), "*").Val()) {
		if _, kind := kindOf(channel); kind != "Events" && kind != "Wake" {
			t.Errorf("the channel %s is nobody's", channel)
		}
	}
	stops := func(d *deployment) {
		redistest.Until(t, "the member of a node that has stopped is removed", func() bool { return d.reason("leaver") == "node" })
	}
	redistest.OK(t, all[0].a.Close(soon(t)))
	stops(all[0])
	for _, d := range all[1:] {
		redistest.Equal(t, "to a member of another deployment happened:", d.reason("leaver"), "")
		d.expectOwn(t, 2)
		redistest.OK(t, d.a.Close(soon(t)))
	}
	stops(all[1])
	stops(all[2])
	kinds := written()
	for _, name := range kinds["nobody's"] {
		t.Errorf("the key %s is nobody's", name)
	}
	for _, d := range all {
		for _, kind := range slices.Sorted(maps.Keys(nameKinds)) {
			redistest.ErrorIf(t, kind != "Events" && kind != "Wake" && !slices.Contains(kinds[d.prefix], kind),
				"%s has written no key of the kind %s", d.name, kind)
		}
	}
	denied, err := admin.Do(t.Context(), "ACL", "LOG").Slice()
	redistest.ErrorIf(t, err != nil || len(denied) > 0, "Redis has refused: %v (%v)", denied, err)
}

// nameKinds are the names of keys and channels behind the prefix.
var nameKinds = map[string]*regexp.Regexp{
	"LockRoom": regexp.MustCompile(`^LockRoom:[^:]+$`), "Queue": regexp.MustCompile(`^LockRoom:[^:]+:Queue$`), "Fence": regexp.MustCompile(`^LockRoom:[^:]+:Fence$`), "Wake": regexp.MustCompile(`^LockRoom:[^:]+:Wake:[0-9a-f]{8}$`),
	"Users": regexp.MustCompile(`^Room:[^:]+:Users$`), "Meta": regexp.MustCompile(`^Room:[^:]+:Meta$`), "Log": regexp.MustCompile(`^Room:[^:]+:Log$`), "Said": regexp.MustCompile(`^Room:[^:]+:Said$`), "Events": regexp.MustCompile(`^Room:[^:]+:Events$`),
	"Node": regexp.MustCompile(`^Node:[^:]+$`), "Node Rooms": regexp.MustCompile(`^Node:[^:]+:Rooms$`), "Info": regexp.MustCompile(`^Node:[^:]+:Info$`), "Drain": regexp.MustCompile(`^Node:[^:]+:Drain$`), "Stopped": regexp.MustCompile(`^Node:[^:]+:Stopped$`), "Over": regexp.MustCompile(`^Node:[^:]+:Over$`),
	"Nodes": regexp.MustCompile(`^Nodes(:\{..\})?$`), "Timers": regexp.MustCompile(`^Timers:(due|died:(\{..\})?\w+)$`),
	"Lobby Rooms": regexp.MustCompile(`^Lobby:(\{lobby\}:)?Rooms$`), "Changed": regexp.MustCompile(`^Lobby:(\{lobby\}:)?Changed$`), "Gone": regexp.MustCompile(`^Lobby:(\{lobby\}:)?Gone$`), "State": regexp.MustCompile(`^Lobby:(\{lobby\}:)?State$`), "Free": regexp.MustCompile(`^Lobby:(\{lobby\}:)?Free:.+$`), "Check": regexp.MustCompile(`^Lobby:(\{lobby\}:)?~check$`), "Match": regexp.MustCompile(`^Lobby:(\{lobby\}:)?Match:.+$`),
	"Entries": regexp.MustCompile(`^Feed:(\{feed\}:)?Entries$`), "Feed Rooms": regexp.MustCompile(`^Feed:(\{feed\}:)?Rooms$`), "Searched": regexp.MustCompile(`^Feed:(\{feed\}:)?Searched$`), "Readers": regexp.MustCompile(`^Feed:(\{feed\}:)?Readers$`),
}

// kindOf returns whose a key or channel is, by the prefix, and its kind.
func kindOf(name string) (prefix, kind string) {
	for _, prefix := range []string{"", "a:", "a:b:"} {
		rest, has := strings.CutPrefix(name, prefix)
		for kind, pattern := range nameKinds {
			if has && pattern.MatchString(rest) {
				return prefix, kind
			}
		}
	}
	return "nobody's", name
}

// watchKeys has Redis tell which keys are written, and returns a function that returns their kinds by prefix.
func watchKeys(t *testing.T, admin *redis.Client) func() map[string][]string {
	t.Helper()
	redistest.OK(t, admin.ConfigSet(t.Context(), "notify-keyspace-events", "KA").Err())
	const channel = "__keyspace@0__:"
	sub := admin.PSubscribe(t.Context(), channel+"*")
	t.Cleanup(func() { _ = sub.Close() })
	_, err := sub.Receive(t.Context())
	redistest.OK(t, err)
	var mu sync.Mutex
	written := make(map[string]bool) // guarded by mu
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			m, err := sub.ReceiveMessage(context.Background())
			if err != nil {
				return
			}
			mu.Lock()
			written[strings.TrimPrefix(m.Channel, channel)] = true
			mu.Unlock()
		}
	}()
	t.Cleanup(func() { _ = sub.Close(); <-ended })
	return func() map[string][]string {
		redistest.OK(t, admin.Set(t.Context(), "Node:last", "", time.Minute).Err())
		kinds := make(map[string][]string)
		redistest.Until(t, "what Redis tells of keys", func() bool { mu.Lock(); defer mu.Unlock(); return written["Node:last"] })
		mu.Lock()
		defer mu.Unlock()
		for name := range written {
			prefix, kind := kindOf(name)
			if !slices.Contains(kinds[prefix], kind) {
				kinds[prefix] = append(kinds[prefix], kind)
			}
		}
		return kinds
	}
}

// deployment is three nodes with a prefix, of which one dies, and what was heard in their rooms 42 and 43.
type deployment struct {
	name    string // begins the names of its users and timers
	prefix  string
	cluster bool
	admin   *redis.Client
	a, b    *Coordinator
	dies    *Coordinator

	mu     sync.Mutex
	left   map[string]room.Reason // guarded by mu: by user
	timers []string               // guarded by mu: that have fired in room 42
	alien  []string               // guarded by mu: of other deployments
}

// deploy starts nodes that have the rights of their prefix.
func deploy(t *testing.T, server *redistest.Server, name, prefix string, cluster bool) *deployment {
	t.Helper()
	d := &deployment{name: name, prefix: prefix, cluster: cluster, admin: server.Client(), left: make(map[string]room.Reason)}
	args := []any{"ACL", "SETUSER", name, "reset", "on", ">secret"}
	for rule := range strings.FieldsSeq(EnoughRights(prefix)) {
		args = append(args, rule)
	}
	redistest.OK(t, d.admin.Do(t.Context(), args...).Err())
	start := func(node string, opts Options) *Coordinator {
		var client redis.UniversalClient
		if cluster {
			client = redis.NewClusterClient(&redis.ClusterOptions{
				Addrs: []string{server.Addr()}, Username: name, Password: "secret", ContextTimeoutEnabled: true,
				MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
			})
		} else {
			opts := *d.admin.Options()
			opts.Username, opts.Password = name, "secret"
			client = redis.NewClient(&opts)
		}
		t.Cleanup(func() { _ = client.Close() })
		opts.Rules, opts.Report, opts.Address = reporting(8).Rules, func(*NodeReport) {}, name+":1"
		opts.KeyPrefix, opts.Node, opts.Journal, opts.Feed, opts.Grace = prefix, node, 100, 10_000, 200*time.Millisecond
		c := newCoordinator(t, client, opts)
		redistest.OK(t, c.Check(soon(t)))
		redistest.OK(t, c.Start(soon(t)))
		return c
	}
	d.a, d.b = start("a", Options{}), start("b", Options{})
	d.dies = start("dies", Options{LockTTL: time.Second, NodeTTL: 1500 * time.Millisecond})
	for _, id := range []string{"42", "43"} {
		for _, c := range []*Coordinator{d.a, d.b} {
			stop, err := c.Watch(soon(t), id, d.hear)
			redistest.OK(t, err)
			t.Cleanup(stop)
		}
	}
	return d
}

func (d *deployment) user(name string) string { return d.name + "-" + name }

// key returns a key of a room, or of its lock.
func (d *deployment) key(word, id, kind string) string {
	if d.cluster {
		id = "{" + id + "}"
	}
	return d.prefix + word + id + kind
}

func (d *deployment) hear(e *room.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range e.Changes {
		if c.User != "" && !strings.HasPrefix(c.User, d.name+"-") {
			d.alien = append(d.alien, fmt.Sprintf("%s %s in room %s", c.Type, c.User, e.Room))
		}
		switch {
		case c.Type == room.KindLeave:
			d.left[c.User] = c.Reason
		case c.Type == "timer":
			d.timers = append(d.timers, c.Timer.Name)
		}
	}
}

// reason returns why a user has left, by what was heard.
func (d *deployment) reason(user string) room.Reason {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.left[d.user(user)]
}

// play does what nodes do.
func (d *deployment) play(t *testing.T) {
	mustDo(t, d.a, "42", room.Configure{Settings: room.Settings{Capacity: 8, Labels: `{"mode":"ranked"}`, History: 10}})
	mustDo(t, d.a, "42", room.Join{User: d.user("leaver"), Session: "s"})
	mustDo(t, d.dies, "42", room.Join{User: d.user("victim"), Session: "s"})
	d.contend(t)
	mustDo(t, d.b, "42", room.Say{User: d.user("b"), Session: "s", Text: d.name})
	mustDo(t, d.b, "42", room.SetData{Data: `"` + d.name + `"`})
	mustDo(t, d.b, "42", room.Deal{Hands: []room.Hand{{User: d.user("b"), Data: "1"}}, Authority: true})
	mustDo(t, d.a, "42", room.Reserve{Session: "party", Users: []string{d.user("p"), d.user("q")}})
	mustDo(t, d.a, "42", room.Kick{User: d.user("p"), Until: room.Forever})
	mustMove(t, d.b, "42", "43", "m", d.user("q"))
	mustDo(t, d.b, "42", room.SetTimer{Name: d.name, In: 100})
	mustDo(t, d.a, "ends", room.Join{User: d.user("c"), Session: "s"})
	mustDo(t, d.a, "ends", room.Close{})
	d.matches(t)
	d.reads(t)
	redistest.OK(t, d.a.Drain(soon(t), d.dies.Node()))
	redistest.Receive(t, d.dies.DrainRequested(), "that the node is to stop")
	die(d.dies)
	redistest.Until(t, "the member of the dead node is removed", func() bool { return d.reason("victim") == "node" })
	redistest.Until(t, "the timer fires", func() bool { d.mu.Lock(); defer d.mu.Unlock(); return len(d.timers) >= 2 })
	d.a.awaitChecks(t, 2)
}

// contend has many wait for a lock that another program of the deployment holds, and be woken.
func (d *deployment) contend(t *testing.T) {
	lock := d.key("LockRoom:", "42", "")
	redistest.OK(t, d.admin.Set(t.Context(), lock, "42:another program's", time.Minute).Err())
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := d.a.Do(ctx, "42", room.Join{User: d.user("early"), Session: "s"})
	redistest.ErrorIf(t, !errors.Is(err, context.DeadlineExceeded), "while another program holds the lock: %v", err)
	redistest.OK(t, d.admin.Del(t.Context(), lock).Err())
	var wg sync.WaitGroup
	for i, c := range []*Coordinator{d.a, d.b, d.a, d.b} {
		user := d.user(fmt.Sprint("c", i))
		wg.Go(func() {
			for range 30 {
				for _, a := range []room.Action{room.Join{User: user, Session: "s"}, room.Leave{User: user, Session: "s"}} {
					_, err := c.Do(soon(t), "42", a)
					redistest.ErrorIf(t, err != nil, "%s: %v", user, err)
				}
			}
		})
	}
	wg.Wait()
	mustDo(t, d.b, "42", room.Join{User: d.user("b"), Session: "s"})
}

// matches finds a seat in the only room with that label that has some.
func (d *deployment) matches(t *testing.T) {
	redistest.Until(t, "the lobby has the room", func() bool {
		l, err := d.a.Lobby(soon(t))
		return err == nil && l.Find("42") != nil
	})
	w := ranked(8)
	w.By, w.Key = "somebody", "key"
	redistest.Equal(t, "matched into", match(t, d.b, w, d.user("m")), "42")
}

// reads reads the journal, the feed, and the feed as a reader.
func (d *deployment) reads(t *testing.T) {
	l := listen(t, d.a)
	l.until("42", at(t, d.b, "42"))
	entries, err := d.b.Journal(soon(t), "42", "", MaxJournalPage)
	redistest.OK(t, err)
	own := func(change room.Change) {
		redistest.ErrorIf(t, change.User != "" && !strings.HasPrefix(change.User, d.name+"-"),
			"%s is in the journal or the feed", change.User)
	}
	for _, e := range entries {
		for _, c := range e.Changes {
			own(c)
		}
	}
	for _, list := range l.rooms {
		for _, e := range list {
			for _, c := range e.Changes {
				own(c)
			}
		}
	}
	redistest.OK(t, d.a.ReadFeedAs(soon(t), "reader", func(_ context.Context, place string, keep func(string) error) error {
		all := func(string) bool { return true }
		first, err := d.b.Feed(soon(t), "", 1, all)
		redistest.OK(t, err)
		if page, err := d.b.Feed(soon(t), place, 1, all); err != nil || len(page.Entries) != 1 || page.Next != first.Next {
			t.Errorf("a new reader begins at %q, before %+v, %v: that is the place of another", place, page, err)
		}
		return keep(d.name)
	}))
}

// expectOwn expects that the deployment, with so many nodes, has nothing of others.
func (d *deployment) expectOwn(t *testing.T, nodes int) {
	t.Helper()
	c := d.b
	living, err := c.Nodes(soon(t))
	redistest.OK(t, err)
	redistest.Equal(t, "nodes", len(living), nodes)
	for _, n := range living {
		redistest.Equal(t, "the node is", n.Address, d.name+":1")
	}
	for _, id := range []string{"42", "43"} {
		for _, u := range mustRead(t, c, id).Users() {
			redistest.ErrorIf(t, !strings.HasPrefix(u.User, d.name+"-"), "%s: %s is in room %s", d.name, u.User, id)
		}
	}
	redistest.Until(t, "the lobby is as the rooms are", func() bool {
		l, err := c.Lobby(soon(t))
		return err == nil && l.Find("42") != nil && l.Find("42").Members == mustRead(t, c, "42").Count()
	})
	for check, found := range c.Checks() {
		redistest.Equal(t, "violations of "+string(check), len(found.Differs), 0)
	}
	redistest.OK(t, c.ReadFeedAs(soon(t), "reader", func(_ context.Context, place string, _ func(string) error) error {
		redistest.Equal(t, "the place of the reader", place, d.name)
		return nil
	}))
	d.mu.Lock()
	defer d.mu.Unlock()
	redistest.Equal(t, "timers", strings.Join(d.timers, " "), d.name+" "+d.name) // to each watcher
	redistest.ErrorIf(t, len(d.alien) > 0, "%s has heard of others: %v", d.name, d.alien)
}
