package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr"
	"roomd/room"
)

// How a commit can fail without having written anything, but for ErrUnacked. Any other
// error leaves the outcome open; sending the same commit again decides it.
var (
	ErrLost     = errors.New("the lock is not the writer's any more")
	ErrQueued   = errors.New("another holds the lock, and the slot's token waits for it")
	ErrStale    = errors.New("the room is at another version")
	ErrConflict = errors.New("the room is at another version, and the lock is free")
	ErrRefused  = errors.New("redis refused the write")
	ErrFull     = errors.New("redis is out of memory")          // together with ErrRefused
	ErrUnacked  = errors.New("too few replicas have the write") // so far
)

// IsDecided reports whether err, with which a commit was answered, says what became of it.
func IsDecided(err error) bool {
	return err == nil || errors.Is(err, ErrLost) || errors.Is(err, ErrQueued) || errors.Is(err, ErrStale) ||
		errors.Is(err, ErrConflict) || errors.Is(err, ErrRefused)
}

// NextToken is where a commit has put the token of the worker's next hold.
type NextToken int

const (
	NextWaits   NextToken = iota // in the queue, or so it may be
	NextNowhere                  // nowhere: the lock is free
	NextHolds                    // it has the lock
)

// nextTokens are what the commit's script calls them. It says nothing (a false, which is
// nil here) of a token that waits.
var nextTokens = map[any]NextToken{int64(0): NextNowhere, int64(1): NextHolds}

// OnConflict is what a commit without a hold does where the lock is free, but the room is another one than the
// writer's copy.
type OnConflict int

const (
	LockOnConflict OnConflict = iota // it takes the lock, and reads the room: ErrStale
	ReadOnConflict                   // it reads the room: ErrConflict
	WaitOnConflict                   // nothing, since the writer gets the room by events: ErrConflict
)

// asks returns what a commit without a hold says of the lock: the TTL of a hold that begins, and the name of an
// OnConflict in its script.
func asks(ttl string) (asks [3]string) {
	for on, name := range []string{LockOnConflict: "lock", ReadOnConflict: "read", WaitOnConflict: "wait"} {
		asks[on] = ttl + " " + name
	}
	return asks
}

// Hold is the hold of the lock in which a commit is written.
type Hold struct {
	Node       string     // under whose name
	Token      string     // that the lock holds; "" if the commit has to find it free, or to take it
	OnConflict OnConflict // of a Hold without a Token
	Moves      bool       // the commit is one half of a move

	// Next is, for a Hold with a Token, the token of the same node's next hold if the commit is to put that into the
	// queue, else empty. If no other node waits it gets the lock at once, unless OnlyQueue says that it is not needed
	// then.
	Next      string
	OnlyQueue bool
}

// byField is the field of Meta that keeps the id of a node's last commit, and fieldMoved that of the last
// move which wrote to the room: a worker would otherwise not recognise a commit of its own.
func byField(node string) string { return "by:" + node }

const fieldMoved = "moved"

// Commit is one write of one hold: ready to be sent, again if need be.
type Commit struct {
	ID       string       // of the room
	Event    *room.Commit // nil if there is nothing to write
	Epoch    string       // the room's after it
	CommitID string       // of the room after it

	keys    *Keys
	token   string // of its Hold
	request string // id of the request, names what is written
	base    string // the commit id that it builds on
	version uint64
	// of the script commit.lua, from the token on; without it where the slot adds that. Pointers into the Commit cost
	// no allocation
	args []any

	// what a sending has heard of the replicas: the error is nil if enough have the commit
	acked atomic.Pointer[error]
	// a Send has left the outcome open: that a later one does not arrive says nothing of it
	doubted bool

	// Once it is written: why Redis did not take the event, or the entry of the journal, if so.
	Unheard, Unlogged string
}

// Token returns the value that the lock has to hold, or "".
func (c *Commit) Token() string { return c.token }

// commitArgs is how many arguments a commit has before its members.
const commitArgs = 13

// Request ids are a name that no other process has, and a count. One names what is written: a commit that could be
// carried out late, when the writer has prepared another one, is not taken for that, whatever token it came with.
var (
	idPrefix = NewName()
	idCount  atomic.Uint64
)

func newRequestID() string { return idPrefix + strconv.FormatUint(idCount.Add(1), 36) }

// Prepare turns what was done to a room into the commit of a hold.
func (s *Store) Prepare(r *room.Room, k *Keys, h Hold) *Commit {
	c := &Commit{ID: r.ID, keys: k, token: h.Token, request: newRequestID(), base: r.CommitID, version: r.Next(),
		Epoch: r.Epoch, CommitID: r.CommitID}
	var epoch, idle, journal string
	var text, event []byte // text is all that is encoded
	var updates []room.Update
	if r.Changed() {
		if r.Epoch == "" || r.Renewed() {
			epoch = NewName()
			c.Epoch = epoch
		}
		idle, journal = s.idleOf(r), s.journal
		c.Event = r.Pending(c.Epoch, h.Node)
		updates = c.Event.Updates
		text = AppendEvent(make([]byte, 0, 160+256*len(updates)), c.Event)
		event, c.CommitID = text, c.Event.CommitID
	}
	fields := metaFields(r, updates)
	history, said := s.said(r, k, c.Event, idle)
	idField := k.byNode(h.Node)
	if h.Moves {
		idField = fieldMoved
	}
	c.args = make([]any, 0, commitArgs+2*len(updates)+len(fields)+len(said))
	if h.Token != "" {
		c.args = append(c.args, &c.token, "")
	} else {
		c.args = append(c.args, &s.asks[h.OnConflict])
	}
	c.args = append(c.args, &c.request, &c.base, idField, &c.version, event, k.channel, r.Base(), r.Count(), 0,
		s.optionalArgs(h, epoch, idle, len(fields), journal, history), &c.CommitID)
	setsArg, sets := len(c.args)-3, 0
	for i := range updates {
		user := updates[i].User
		if m, ok := r.Member(user); ok && updates[i].Type.OfMember() {
			from := len(text)
			text = appendMember(text, m)
			c.args = append(c.args, user, text[from:])
			sets++
		}
	}
	c.args[setsArg] = sets
	for i := range updates {
		user := updates[i].User
		if _, ok := r.Member(user); !ok && updates[i].Type.OfMember() {
			c.args = append(c.args, user)
		}
	}
	c.args = append(append(c.args, fields...), said...)
	return c
}

// said returns what a commit does to the messages that a room keeps, as the last of the optional fields, and the
// arguments that go with it. Both are empty if it does nothing to them.
func (s *Store) said(r *room.Room, k *Keys, event *room.Commit, idle string) (history string, args []any) {
	settings, _ := r.Settings()
	if event == nil || settings.History == 0 && !r.HistoryEnds() {
		return "", nil
	}
	args = []any{k.Said}
	for _, message := range event.SaidIn() {
		args = append(args, marshal(message))
	}
	expiry := idle != "" || r.Base() == 0
	if len(args) == 1 && settings.History > 0 && !expiry {
		return "", nil
	}
	return fmt.Sprint(len(args), settings.History), args
}

// optionalArgs returns what a commit seldom needs. Its script gets that as one argument, with spaces
// between; none of the parts holds a space.
func (s *Store) optionalArgs(h Hold, epoch, idle string, fields int, journal, history string) string {
	if h.Next == "" && epoch == "" && idle == "" && fields == 0 && journal == "" && history == "" {
		return ""
	}
	ttl := ""
	if h.Next != "" && !h.OnlyQueue {
		ttl = s.ttl
	}
	if s.feed && idle != "" && idle != s.idle { // whoever copies the log may be away
		idle += "/" + s.idle
	}
	args := []string{h.Next, ttl, epoch, idle, strconv.Itoa(fields), journal, history}
	if history == "" {
		args = args[:len(args)-1]
	}
	return strings.TrimSuffix(strings.Join(args, " "), " ")
}

// idleOf returns how long Redis is to keep a room as it is now, in ms, and "" for as long as it is there. An empty
// room that nobody has configured goes soon, since any player can begin any number of them. Bans, and who was taken
// out, are known for as long as elsewhere, unless the room has a host: then a player has made them.
func (s *Store) idleOf(r *room.Room) string {
	settings, _ := r.Settings()
	switch has := r.State(); {
	case r.Count() > 0 || settings.Keep:
		return ""
	case settings.Default && (settings.Host != room.HostNone || len(has.Bans) == 0 && len(has.Gone) == 0):
		return s.unused
	}
	return s.idle
}

// Fields of Meta that few rooms have.
const (
	fieldSettings = "settings"
	fieldData     = "data"
	fieldBans     = "bans"
	fieldGone     = "gone"
	fieldTimers   = "timers"
	fieldHost     = "host"
)

// metaField is a field of Meta, and a pointer to what it holds.
type metaField struct {
	name  string
	value any
}

func metaOf(of *room.State) [6]metaField {
	return [...]metaField{{fieldSettings, &of.Settings}, {fieldData, &of.Data}, {fieldBans, &of.Bans},
		{fieldGone, &of.Gone}, {fieldTimers, &of.Timers}, {fieldHost, &of.Host}}
}

// metaFields returns the fields of Meta that updates of the room write, and their values.
func metaFields(r *room.Room, updates []room.Update) (fields []any) {
	var of *room.State
	for i := range updates { // by index: they are large, and seldom any is of the room
		if updates[i].Type.Field() != "" || r.GoneChanged() {
			state := r.State()
			of = &state
			break
		}
	}
	if of == nil {
		return nil
	}
	for _, f := range metaOf(of) {
		writes := func(u room.Update) bool { return u.Type.Field() == f.name }
		if slices.ContainsFunc(updates, writes) || f.name == fieldGone && r.GoneChanged() {
			fields = append(fields, f.name, marshal(f.value))
		}
	}
	return fields
}

// askFully has a request for the lock sent; and again if Redis is out of memory, with full behind the TTL that it
// asks for: see room_ttl in room.lua.
func askFully(ask func(full string) (*redis.Cmd, error)) (*redis.Cmd, error) {
	cmd, err := ask("")
	if err != nil && redis.HasErrorPrefix(err, "OOM") {
		cmd, err = ask(" full")
	}
	return cmd, err
}

// asking returns the arguments of a commit that may ask for the lock. full is that of askFully.
func (c *Commit) asking(full string) []any {
	if full == "" {
		return c.args
	}
	return append([]any{*c.args[0].(*string) + full}, c.args[1:]...)
}

// inScript is what Redis adds to an error that a script has met.
const inScript = "script: "

// Send sends a commit. Without an error it is written, now or by an earlier sending. at says where the next token is,
// and now is what the room is when the error is ErrStale, and then the lock is the slot's token's, or ErrConflict,
// unless the writer waits for its events. A commit of a Hold without a Token fails with ErrQueued where one of
// another fails with ErrLost.
func (s *Store) Send(ctx context.Context, slot *lockmgr.Slot, c *Commit) (at NextToken, now *room.Room, err error) {
	reply, err := s.run(ctx, c.keys.Meta, CommitScript, func(script *redis.Script) (*redis.Cmd, error) {
		switch {
		case s.acks > 0 && c.Event != nil: // what is not written need not be acknowledged
			return s.sendAcked(ctx, slot, script, c)
		case c.token == "":
			return askFully(func(full string) (*redis.Cmd, error) { return slot.Ask(ctx, script, c.asking(full)...) })
		}
		return slot.Run(ctx, script, c.args...), nil
	})
	if err != nil && c.token == "" && !c.doubted && !slot.InDoubt() && !errors.Is(err, ErrUnacked) &&
		!strings.Contains(err.Error(), inScript) {
		// Redis has got nothing, or would not run it
		return at, nil, fmt.Errorf("%w: %w", ErrRefused, s.explain(ctx, c.ID, err))
	}
	if err == nil && len(reply) > 1 && (reply[0] == "stale" || reply[0] == "conflict") {
		if now, err = s.parseRoom(ctx, c.ID, reply[1:]); err != nil {
			return at, nil, fmt.Errorf("%w: %w", ErrRefused, err)
		}
	}
	if err = s.outcome(ctx, c.ID, reply, err); err != nil {
		c.doubted = !IsDecided(err)
		return at, now, err
	}
	if len(reply) > 1 {
		at = nextTokens[reply[1]]
	}
	c.incomplete(reply, 2)
	return at, nil, nil
}

// outcome returns nil if a commit, or a move, was answered that it is done, else how it failed.
func (s *Store) outcome(ctx context.Context, id string, reply []any, err error) error {
	switch {
	case err != nil && redis.HasErrorPrefix(err, "WRONGTYPE"): // found before anything was written
		return fmt.Errorf("%w: %w", ErrRefused, s.explain(ctx, id, err))
	case err != nil:
		return err
	case reply[0] == "done":
		return nil
	case reply[0] == "lost":
		return ErrLost
	case reply[0] == "queued":
		return ErrQueued
	case reply[0] == "stale":
		return ErrStale
	case reply[0] == "conflict":
		return ErrConflict
	case reply[0] == "refused" && len(reply) == 2:
		why, _ := reply[1].(string)
		if strings.HasPrefix(why, "OOM") {
			return fmt.Errorf("%w: %w: %s", ErrRefused, ErrFull, why)
		}
		return fmt.Errorf("%w: %s", ErrRefused, why)
	}
	return fmt.Errorf("redis answered %q to a commit", reply[0])
}

// incomplete keeps what Redis says of the commit from a place in a reply on, if it says something.
func (c *Commit) incomplete(reply []any, from int) {
	if len(reply) > from {
		c.Unheard, _ = reply[from].(string)
	}
	if len(reply) > from+1 {
		c.Unlogged, _ = reply[from+1].(string)
	}
}

// Move writes commits of rooms that are locked together, in one step, by move.lua.
type Move struct {
	store   *Store
	commits []*Commit
	slot    *lockmgr.Slot // of the first room's lock, which has the keys of all
	args    []any
}

// NewMove prepares a request that writes those commits. Close it.
func (s *Store) NewMove(locks *lockmgr.Manager, commits ...*Commit) (*Move, error) {
	m := &Move{store: s, commits: commits}
	var keys []string
	for i, c := range commits {
		if i > 0 { // the slot has those of the first
			keys = append(keys, locks.Keys(c.ID)...)
		}
		keys = append(keys, c.keys.Users, c.keys.Meta, c.keys.Log)
		m.args = append(append(m.args, len(c.args)), c.args...) // its Hold has a Token
	}
	var err error
	m.slot, err = locks.Slot(commits[0].ID, keys...)
	return m, err
}

// Close ends the use of the request.
func (m *Move) Close() { m.slot.Close() }

// Send sends the request once. It waits until enough replicas have what was written.
func (m *Move) Send(ctx context.Context) error {
	s, first := m.store, m.commits[0]
	var unacked error
	reply, err := s.run(ctx, first.keys.Meta, MoveScript, func(script *redis.Script) (cmd *redis.Cmd, err error) {
		if s.acks == 0 {
			return m.slot.Run(ctx, script, m.args...), nil
		}
		conn, err := connFor(ctx, s.Client, first.keys.Meta)
		if err != nil {
			return nil, err
		}
		defer conn.Close()
		cmd, unacked = s.acked(ctx, conn, script, m.slot.Command(script, m.args...))
		return cmd, nil
	})
	if err = s.outcome(ctx, first.ID, reply, err); err != nil {
		return err
	}
	for i, c := range m.commits {
		c.incomplete(reply, 1+2*i) // if it was written before, the reply has nothing of that
	}
	return unacked
}
