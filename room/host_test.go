package room

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Whatever happens in a room, a commit leaves it with the host that its settings say, and who follows it knows that.
func TestHost_Always(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := NewRoom("42", Position{"e", 0, ""}, map[string]Member{})
		far := NewRoom("42", Position{"e", 0, ""}, map[string]Member{})
		now := int64(0)
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			user := fmt.Sprint("u", rapid.IntRange(0, 5).Draw(rt, "user"))
			other := fmt.Sprint("u", rapid.IntRange(0, 5).Draw(rt, "other"))
			node := rapid.SampledFrom([]string{"m", "n"}).Draw(rt, "node")
			now += rapid.Int64Range(-3, 3).Draw(rt, "later") // the nodes' clocks differ
			by, session := Origin{node, now}, rapid.SampledFrom([]string{"s", "t"}).Draw(rt, "session")
			host := r.State().Host
			a := rapid.SampledFrom([]Action{
				Join{User: user, Session: session}, Join{User: user, Session: session}, Leave{User: user, Session: session}, Detach{User: user, Session: session}, Kick{User: user},
				Kick{User: other, As: Claim{user, session}}, Reserve{Session: "r", Users: []string{user}}, Release{Users: []string{user}},
				Configure{Settings: Settings{Host: HostLongest}}, Configure{Settings: Settings{Host: HostLongest, Capacity: 5}}, Configure{}, Close{}, Upkeep{Stray: node}, Upkeep{Evict: node}, Upkeep{Renew: "e"},
			}).Draw(rt, "action")
			_, err := r.Apply(a, Rules{}, by)
			if wrong := wrongHost(r, host); wrong != "" {
				rt.Fatalf("after %T (%v): %s", a, err, wrong)
			}
			switch rapid.IntRange(0, 3).Draw(rt, "then") {
			case 0:
				r.Revert()
			case 1:
				if r.Changed() {
					if !far.Advance(r.Pending("e", node).Event("42")) {
						rt.Fatal("the event does not follow")
					}
					r.Commit("e", "")
				}
			}
		}
		r.Revert()
		if far.State().Host != r.State().Host || far.Snapshot().Host() != r.State().Host {
			rt.Fatalf("the host is %q, and who follows knows %q", r.State().Host, far.State().Host)
		}
	})
}

// wrongHost says what is wrong with the host of a room after one action. It was somebody before.
func wrongHost(r *Room, before string) string {
	s, _ := r.Settings()
	host := r.State().Host
	_, member := r.Member(host)
	_, stays := r.Member(before)
	switch wanted := s.Host == HostLongest && r.Count() > 0; {
	case wanted != (host != ""):
		return fmt.Sprintf("the host is %q, with %d members and the policy %v", host, r.Count(), s.Host)
	case host != "" && !member:
		return fmt.Sprintf("the host %q is not there", host)
	case host == "", host == before:
		return ""
	case stays:
		return fmt.Sprintf("the host is %q, and %q was it, and stays", host, before)
	}
	is := r.members.byUser[host]
	for user, m := range r.Members() {
		sooner := m.At < is.At || m.At == is.At && m.Seat < is.Seat
		if user != host && (is.Detached() && !m.Detached() || is.Detached() == m.Detached() && sooner) {
			return fmt.Sprintf("%q has become the host, and %q has sat longer", host, user)
		}
	}
	return ""
}

// Who the next host is.
func TestHost_Succession(t *testing.T) {
	for _, tt := range []struct {
		name    string
		members map[string]Member
		do      Action
		want    string
	}{
		{"who came first", map[string]Member{"a": {Seat: 0, Session: "s", At: 9}, "b": {Seat: 1, At: 5}, "c": {Seat: 2, At: 4}}, Leave{User: "a", Session: "s"}, "c"},
		{"of two who came at once, who has the lower seat", map[string]Member{"a": {Seat: 0, Session: "s", At: 9}, "b": {Seat: 2, At: 4}, "c": {Seat: 1, At: 4}}, Leave{User: "a", Session: "s"}, "c"},
		{"nobody who is away", map[string]Member{"a": {Seat: 0, Session: "s", At: 9}, "b": {Seat: 1, Session: "~s", At: 4}, "c": {Seat: 2, At: 5}}, Leave{User: "a", Session: "s"}, "c"},
		{"nobody who has not come", map[string]Member{"a": {Seat: 0, Session: "s", At: 9}, "b": {Seat: 1, Session: "~+s", At: 4}, "c": {Seat: 2, At: 5}}, Leave{User: "a", Session: "s"}, "c"},
		{"unless all are", map[string]Member{"a": {Seat: 0, Session: "s", At: 9}, "b": {Seat: 1, Session: "~s", At: 4}, "c": {Seat: 2, Session: "~s", At: 5}}, Leave{User: "a", Session: "s"}, "b"},
		{"a host who is away stays", map[string]Member{"a": {Seat: 0, Session: "s", At: 9}, "b": {Seat: 1, At: 4}}, Detach{User: "a", Session: "s"}, "a"},
		{"a host who comes again stays", map[string]Member{"a": {Seat: 0, Session: "s", At: 9}, "b": {Seat: 1, At: 4}}, Join{User: "a", Session: "t"}, "a"},
		{"a host who is moved", map[string]Member{"a": {Seat: 0, Session: "s", At: 1}, "b": {Seat: 1, At: 4}}, Release{Users: []string{"a"}, Target: "43"}, "b"},
		{"the node of the host has died", map[string]Member{"a": {Seat: 0, Node: "x", At: 1}, "b": {Seat: 1, Node: "x", At: 2}, "c": {Seat: 2, Node: "y", At: 4}}, Upkeep{Evict: "x"}, "c"},
		{"the room is closed", map[string]Member{"a": {Seat: 0}, "b": {Seat: 1}}, Close{}, ""},
		{"the setting is turned off", map[string]Member{"a": {Seat: 0}, "b": {Seat: 1}}, Configure{}, ""},
		{"a host whom Redis does not know", map[string]Member{"b": {Seat: 1, At: 2}, "c": {Seat: 2, At: 1}}, Join{User: "d", Session: "s"}, "c"},
	} {
		r := NewRoom("42", Position{"e", 7, ""}, tt.members)
		r.Restore(State{Settings: &Settings{Host: HostLongest}, Host: "a"})
		if _, err := r.Apply(tt.do, Rules{}, Origin{Node: "n", At: 20}); err != nil || r.State().Host != tt.want {
			t.Errorf("%s: %q, want %q (%v)", tt.name, r.State().Host, tt.want, err)
		}
	}
}

// Who came first sits longest, whatever the clocks of the nodes say, and however fast the others followed.
func TestHost_ClocksDiffer(t *testing.T) {
	r := NewRoom("42", Position{"e", 7, ""}, map[string]Member{"d": {Seat: 3, Session: "s", At: 500}})
	join := func(user string, seat int, at int64) {
		t.Helper()
		if _, err := r.Apply(Join{User: user, Session: "s", Seat: new(seat)}, Rules{}, Origin{Node: "n", At: at}); err != nil {
			t.Fatal(err)
		}
	}
	join("x", 5, 900)
	r.Revert()
	join("c", 2, 500)
	join("b", 1, 100)
	r.Commit("e", "1")
	join("a", 0, 100)
	if _, err := r.Apply(Configure{Settings: Settings{Host: HostLongest}}, Rules{}, Origin{}); err != nil {
		t.Fatal(err)
	}
	var hosts []string
	for r.Count() > 0 {
		m, _ := r.Member(r.State().Host)
		hosts = append(hosts, fmt.Sprint(r.State().Host, m.At))
		if _, err := r.Apply(Kick{User: r.State().Host}, Rules{}, Origin{}); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Join(hosts, " "); got != "d500 c501 b502 a503" {
		t.Error("the hosts, one after the other:", got)
	}
}

// A room of which Redis has lost something has the right host with the commit that begins its new epoch, also if
// that does nothing else.
func TestHost_LostMember(t *testing.T) {
	r := NewRoom("42", Position{"e", 7, ""}, map[string]Member{"b": {Session: "s"}})
	r.Restore(State{Settings: &Settings{Host: HostLongest}, Host: "a"})
	r.Renew()
	if _, err := r.Apply(Leave{User: "x", Session: "s"}, Rules{}, Origin{}); !errors.Is(err, ErrNotMember) {
		t.Error(err)
	}
	if c := r.Pending("f", "n"); r.State().Host != "b" || len(c.Updates) != 1 || c.Updates[0].Type != kindHost {
		t.Errorf("the host is %q, by %+v", r.State().Host, c.Updates)
	}
}

// table returns a room with the host a and the member b, whose sessions are sa and sb.
func table(s Settings) *Room {
	r := NewRoom("42", Position{"e", 7, ""}, map[string]Member{"a": {Seat: 0, Session: "sa", At: 1}, "b": {Seat: 1, Session: "sb", At: 2}})
	s.Host = HostLongest
	r.Restore(State{Settings: &s, Host: "a"})
	return r
}

func TestHost_Claims(t *testing.T) {
	a, b := Claim{"a", "sa"}, Claim{"b", "sb"}
	now := Settings{Capacity: 4, Data: DataAdmins, Watch: WatchMembers, Host: HostLongest}
	configured := func(change func(*Settings)) Configure {
		s := now
		change(&s)
		return Configure{Settings: s, As: a}
	}
	for name, tt := range map[string]struct {
		do   Action
		want error
		text string
	}{
		"the host kicks":                      {do: Kick{User: "b", As: a}},
		"the host bans":                       {do: Kick{User: "c", Until: 99, As: a}},
		"the host closes":                     {do: Close{As: a}},
		"the host closes the door":            {do: configured(func(s *Settings) { s.Closed = true })},
		"the host wants more seats":           {do: configured(func(s *Settings) { s.Capacity = 6 })},
		"the host lets everybody watch":       {do: configured(func(s *Settings) { s.Watch = "" })},
		"the host puts labels on":             {do: configured(func(s *Settings) { s.Labels = MakeLabels(map[string]string{"mode": "fast"}) })},
		"the host keeps the room":             {configured(func(s *Settings) { s.Keep = true }), ErrForbidden, "settings.keep: "},
		"the host lets members set data":      {configured(func(s *Settings) { s.Data = "" }), ErrForbidden, "settings.data: "},
		"the host has messages kept":          {configured(func(s *Settings) { s.History = 9 }), ErrForbidden, "settings.history: "},
		"the host turns the setting off":      {configured(func(s *Settings) { s.Host = "" }), ErrForbidden, "settings.host: "},
		"the host takes too many seats away":  {configured(func(s *Settings) { s.Capacity = 1 }), ErrInvalid, "capacity "},
		"another member kicks":                {Kick{User: "a", As: b}, ErrForbidden, "only the host of room 42 and admins may do that, and b is not the host"},
		"another member closes":               {Close{As: b}, ErrForbidden, "b is not the host"},
		"another member configures":           {Configure{Settings: now, As: b}, ErrForbidden, "b is not the host"},
		"another session of the host's kicks": {Kick{User: "b", As: Claim{"a", "other"}}, ErrNotMember, "another session"},
		"who is not there kicks":              {Kick{User: "b", As: Claim{"c", "sc"}}, ErrNotMember, "c is not in room 42"},
		"a claim without a session":           {Kick{User: "b", As: Claim{User: "a"}}, ErrInvalid, "session "},
		"a claim without a user":              {Close{As: Claim{Session: "sa"}}, ErrInvalid, "user "},
		"a claim of what is no user":          {Configure{Settings: now, As: Claim{"\n", "s"}}, ErrInvalid, "user "},
		"an admin does all of it":             {do: Configure{Settings: Settings{Keep: true}}},
	} {
		r := table(now)
		_, err := apply(t, r, tt.do, Rules{})
		if !errors.Is(err, tt.want) || tt.want != nil && !strings.Contains(err.Error(), tt.text) || (err == nil) != r.Changed() {
			t.Errorf("%s: %v, want %v: %q", name, err, tt.want, tt.text)
		}
	}
	kept := table(Settings{Keep: true})
	if _, err := apply(t, kept, Close{As: a}, Rules{}); !errors.Is(err, ErrForbidden) {
		t.Errorf("the host closes a room that is kept: %v", err)
	}
	none := NewRoom("42", Position{"e", 7, ""}, map[string]Member{"a": {Session: "sa"}})
	if _, err := apply(t, none, Close{As: a}, Rules{}); !errors.Is(err, ErrForbidden) || !strings.Contains(err.Error(), "its settings give it no host") {
		t.Errorf("a room without a host: %v", err)
	}
}

// What the host configures does not make Redis keep a room for longer that a player has begun.
func TestHost_ConfiguresDefault(t *testing.T) {
	r := table(Settings{Default: true})
	if _, err := apply(t, r, Configure{Settings: Settings{Capacity: 9, Host: HostLongest}, As: Claim{"a", "sa"}}, Rules{}); err != nil {
		t.Fatal(err)
	}
	if s, _ := r.Settings(); s != (Settings{Capacity: 9, Host: HostLongest, Default: true}) {
		t.Errorf("the host makes it %+v", s)
	}
	if _, err := apply(t, r, Configure{Settings: Settings{Capacity: 9, Host: HostLongest}}, Rules{}); err != nil {
		t.Fatal(err)
	}
	if s, _ := r.Settings(); s.Default {
		t.Errorf("an admin makes it %+v", s)
	}
}

// Who begins a room with the setting is its host.
func TestHost_Begins(t *testing.T) {
	r := NewRoom("42", Position{}, map[string]Member{})
	if _, err := apply(t, r, Join{User: "a", Session: "s", Begin: &Settings{Host: HostLongest}}, Rules{}); err != nil || r.State().Host != "a" {
		t.Errorf("the host is %q: %v", r.State().Host, err)
	}
}

// Who was the host before an action of the same commit is it no more.
func TestHost_LostInTheSameCommit(t *testing.T) {
	r := table(Settings{})
	for _, a := range []Action{Leave{User: "a", Session: "sa"}, Join{User: "a", Session: "sa"}} {
		if _, err := apply(t, r, a, Rules{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := apply(t, r, Kick{User: "b", As: Claim{"a", "sa"}}, Rules{}); !errors.Is(err, ErrForbidden) {
		t.Error(err)
	}
	if _, err := apply(t, r, Kick{User: "a", As: Claim{"b", "sb"}}, Rules{}); err != nil {
		t.Error(err)
	}
}

// The host may not lift an admin's ban by more bans than a room can have.
func TestHost_ManyBans(t *testing.T) {
	bans := make(map[string]int64, maxBans)
	for i := range maxBans {
		bans[fmt.Sprint("x", i)] = Forever
	}
	r := NewRoom("42", Position{"e", 7, ""}, map[string]Member{"a": {Session: "sa"}})
	r.Restore(State{Settings: &Settings{Host: HostLongest}, Host: "a", Bans: bans})
	a := Claim{"a", "sa"}
	if _, err := apply(t, r, Kick{User: "b", Until: 9, As: a}, Rules{}); !errors.Is(err, ErrForbidden) || r.Changed() {
		t.Errorf("one ban more: %v", err)
	}
	if _, err := apply(t, r, Kick{User: "x1", Until: 9, As: a}, Rules{}); err != nil || r.Changed() {
		t.Errorf("a shorter ban of who is banned: %v", err)
	}
	bans["x7"] = -1 // is over
	if _, err := apply(t, r, Kick{User: "b", Until: 9, As: a}, Rules{}); err != nil {
		t.Errorf("where a ban is over: %v", err)
	}
	if _, err := apply(t, r, Kick{User: "c", Until: Forever}, Rules{}); err != nil {
		t.Errorf("an admin's: %v", err)
	}
}

// A game's own rule may look at the host, who is appointed before it begins.
func TestHost_Starter(t *testing.T) {
	r := NewRoom("42", Position{"e", 7, ""}, map[string]Member{})
	r.Restore(State{Settings: &Settings{Host: HostLongest}})
	rules := Rules{Starter: starterFunc(func(in View) (string, bool) { return fmt.Sprintf("%q", in.Host()), true })}
	if _, err := apply(t, r, Join{User: "a", Session: "s"}, rules); err != nil || r.Snapshot().Data != `"a"` {
		t.Errorf("%s, %v", r.Snapshot().Data, err)
	}
}
