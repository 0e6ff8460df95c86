package loadtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/loadtest/history"
	"roomd/loadtest/internal/tally"
	"roomd/lockmgr/redisconn/pause"
	"roomd/lockmgr/redisconn/redisurl"
	"roomd/room"
	"roomd/room/coordinator"
)

const (
	// adminPause is between two actions of the administrator, on average.
	adminPause = 10 * time.Millisecond

	// closedTime is how long a room stays closed.
	closedTime = 20 * time.Millisecond

	// maxBan is how long a ban lasts at most. Nodes judge by the clock of Redis as they have measured it: maxClockError is how
	// wrong that may be on a busy machine.
	maxBan        = 500 * time.Millisecond
	maxClockError = 200 * time.Millisecond
)

// admin does what needs authority over rooms. It is a node of its own, without players.
type admin struct {
	game    *game
	tally   *tally.Tally
	rdb     redis.UniversalClient
	rooms   *coordinator.Coordinator
	mix     []string
	random  *rand.Rand
	guests  map[string][]string // by room: users with reserved seats who do not come
	number  int                 // of guests
	matched string              // the room of guests for whom a match was made
}

// newAdmin returns nil if there is nothing to do, or no Redis to do it with.
func newAdmin(ctx context.Context, g *game, db *redisurl.DB) (*admin, error) {
	a := &admin{game: g, mix: g.cfg.of(true), random: rand.New(rand.NewPCG(1, 2)), guests: make(map[string][]string)}
	if len(a.mix) == 0 || !g.cfg.readsStore() {
		return nil, nil
	}
	a.tally, a.rdb = g.newTally(), db.NewClient()
	if err := a.open(ctx); err != nil {
		_ = a.rdb.Close()
		return nil, fmt.Errorf("administrator: %w", err)
	}
	return a, nil
}

// open starts the administrator's node, with a journal as long as the nodes under test have: without one its commits
// would be missing in theirs.
func (a *admin) open(ctx context.Context) (err error) {
	for opts := (coordinator.Options{KeyPrefix: a.game.cfg.KeyPrefix, Rules: a.game.cfg.rules()}); ; {
		if a.rooms, err = coordinator.New(a.rdb, opts); err != nil {
			return err
		}
		others, err := a.rooms.Nodes(ctx)
		longest := opts.Journal
		for _, n := range others {
			longest = max(longest, n.Settings.Journal)
		}
		if err == nil && longest == opts.Journal {
			return nil
		}
		if err = errors.Join(err, a.rooms.Close(ctx)); err != nil {
			return err
		}
		opts.Journal = longest
	}
}

func (a *admin) close() {
	if a == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	_ = a.rooms.Close(ctx)
	_ = a.rdb.Close()
}

// run acts until ctx ends.
func (a *admin) run(ctx context.Context) {
	for ctx.Err() == nil {
		// What was begun ends, so that its outcome is known.
		a.act(context.WithoutCancel(ctx), a.mix[a.random.IntN(len(a.mix))], a.game.rooms[a.random.IntN(len(a.game.rooms))])
		_ = pause.For(ctx, time.Duration(a.random.Int64N(int64(2*adminPause))))
	}
}

func (a *admin) act(ctx context.Context, what, id string) {
	switch what {
	case MixConfigure:
		a.configure(ctx, id)
	case MixKick:
		a.kick(ctx, id)
	case MixClose:
		a.do(ctx, MixClose, id, room.Close{}, history.Request{Action: history.Close})
		time.Sleep(closedTime)
		a.settle(ctx, MixConfigure, id, a.usual(), nil)
	case MixHost:
		a.settle(ctx, actionOpen, id, a.usual(), nil)
	case MixSeats:
		a.seats(ctx, id)
	case MixMatch:
		a.match(ctx)
	case MixDeal:
		a.deal(ctx, id)
	case MixParty:
		a.party(ctx, id)
	case MixMove:
		a.move(ctx, id)
	}
}

// configure changes the capacity, or closes the room for a moment.
func (a *admin) configure(ctx context.Context, id string) {
	now, err := a.rooms.Read(ctx, id)
	if err != nil || now.Version == 0 {
		return
	}
	s := a.usual()
	s.Capacity = max(1, now.Count()-2+a.random.IntN(a.game.cfg.Clients/len(a.game.rooms)+2)) // it may not fit
	var expect *uint64
	if a.random.IntN(2) == 0 {
		expect = &now.Version
	}
	if a.random.IntN(4) > 0 {
		a.settle(ctx, MixConfigure, id, s, expect)
		return
	}
	s.Closed, s.Keep = true, true
	a.settle(ctx, MixConfigure, id, s, expect)
	time.Sleep(closedTime)
	a.settle(ctx, MixConfigure, id, a.usual(), nil)
}

// usual returns the settings of a room of the run.
func (a *admin) usual() room.Settings {
	s := room.Settings{Capacity: a.game.cfg.Capacity}
	if slices.Contains(a.game.cfg.Mix, MixHost) {
		s.Host = room.HostLongest
	}
	return s
}

func (a *admin) settle(ctx context.Context, what, id string, s room.Settings, expect *uint64) {
	q := history.Request{Action: history.Configure, Settings: ruled(s), Expect: expect}
	action := room.Configure{Settings: s}
	if expect != nil {
		action.Expect = room.ExpectVersion("", *expect)
	}
	a.do(ctx, what, id, action, q)
}

func ruled(s room.Settings) history.Rules {
	rules := history.Rules{Capacity: s.Capacity, Closed: s.Closed, Keep: s.Keep, Labels: history.Labels(s.Labels)}
	if s.Data != room.DataMembers { // as Redis has it
		rules.Data = s.Data.String()
	}
	if s.Host != room.HostNone {
		rules.Host = s.Host.String()
	}
	return rules
}

// settingsOf is ruled the other way round.
func settingsOf(r history.Rules) *room.Settings {
	s := &room.Settings{Capacity: r.Capacity, Closed: r.Closed, Keep: r.Keep, Labels: room.Labels(r.Labels)}
	if r.Host != "" {
		_ = s.Host.UnmarshalText([]byte(r.Host))
	}
	return s
}

// kick throws out a member, or bans somebody for a moment.
func (a *admin) kick(ctx context.Context, id string) {
	user := a.game.players[a.random.IntN(len(a.game.players))].name
	if members := a.members(ctx, id); len(members) > 0 && a.random.IntN(4) > 0 {
		user = members[a.random.IntN(len(members))]
	}
	q := history.Request{Action: history.Kick, Users: []history.Member{{User: user}}, Text: "enough"}
	action := room.Kick{User: user, Text: q.Text}
	if a.random.IntN(2) == 0 {
		lasts := 1 + a.random.Int64N(maxBan.Milliseconds())
		q.BannedUntil = milliseconds() + lasts - maxClockError.Milliseconds() // for certain
		action.Until = a.rooms.Now() + lasts
	}
	a.do(ctx, MixKick, id, action, q)
}

// deal deals to some of the members, now and then to a stranger, too, so that nobody gets anything.
func (a *admin) deal(ctx context.Context, id string) {
	users := a.members(ctx, id)
	a.random.Shuffle(len(users), func(i, j int) { users[i], users[j] = users[j], users[i] })
	users = users[:min(len(users), 1+a.random.IntN(4))]
	if a.random.IntN(8) == 0 {
		users = append(users, "stranger")
	}
	q, action := history.Request{Action: history.SetPrivate, Hands: []history.Hand{}}, room.Deal{}
	for _, user := range users {
		a.number++
		data := fmt.Sprintf("%q", fmt.Sprint("hand ", a.number))
		q.Hands, action.Hands = append(q.Hands, history.Hand{User: user, Data: data}), append(action.Hands, room.Hand{User: user, Data: data})
	}
	if len(users) > 0 {
		a.do(ctx, MixDeal, id, action, q)
	}
}

// members returns who is in a room, as far as the administrator's node knows.
func (a *admin) members(ctx context.Context, id string) (users []string) {
	now, err := a.rooms.Read(ctx, id)
	if err != nil {
		return nil
	}
	return usersOf(now)
}

func usersOf(s room.Snapshot) (users []string) {
	for _, o := range s.Users() {
		users = append(users, o.User)
	}
	return users
}

func unseated(users []string) (members []history.Member) {
	for _, user := range users {
		members = append(members, history.Member{User: user})
	}
	return members
}

// do acts and records the outcome. It reports whether the action was done.
func (a *admin) do(ctx context.Context, what, id string, action room.Action, q history.Request) bool {
	result, err := a.rooms.Do(ctx, id, action)
	a.record(what, id, q, result, err)
	return err == nil
}

// record tells the ledger, and the tally unless what is empty.
func (a *admin) record(what, id string, q history.Request, r room.Result, err error) {
	count := func(o tally.Outcome) {
		if what != "" {
			a.tally.Count(what, o)
		}
	}
	reply := history.Reply{Epoch: r.Epoch, Version: r.Version, Data: r.Data}
	switch {
	case err == nil:
		count(tally.Done)
		if q.Action == history.Shuffle {
			q.Users = unseated(usersOf(r.Snapshot))
		}
		for i := range q.Users {
			for _, o := range r.Users() {
				if o.User == q.Users[i].User {
					q.Users[i].Seat = o.Seat
				}
			}
		}
		if q.Action == history.Reserve || q.Action == history.MoveIn {
			a.mayLeave(id, q, r)
		}
		a.game.ledger.Done(id, q, reply)
	case errors.Is(err, room.ErrConflict):
		count(tally.Conflict)
		a.game.ledger.Conflict(id, q, reply)
	case errors.Is(err, room.ErrUnknown):
		count(tally.Unknown)
		a.game.ledger.Unanswered(id, q, 0)
	case refusedByRules(err):
		count(tally.Refused)
		a.game.ledger.Refused(id, q)
	default:
		a.game.ledger.Refused(id, q)
		if what != "" {
			a.tally.Fail(fmt.Errorf("%s %s: %w", what, id, err))
		}
	}
}

func refusedByRules(err error) bool {
	for _, other := range []error{room.ErrInvalid, room.ErrFull, room.ErrRoomClosed, room.ErrBanned, room.ErrNotMember, room.ErrForbidden} {
		if errors.Is(err, other) {
			return true
		}
	}
	return false
}
