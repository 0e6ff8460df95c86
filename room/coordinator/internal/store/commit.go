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

// Errors of a commit. All except ErrUnacked mean that nothing was written. An error that is not listed leaves the
// outcome open; sending the same commit again decides it.
var (
	ErrLost     = errors.New("the lock is not the writer's any more")
	ErrQueued   = errors.New("another holds the lock, and the slot's token waits for it")
	ErrStale    = errors.New("the room is at another version")
	ErrConflict = errors.New("the room is at another version, and the lock is free")
	ErrRefused  = errors.New("redis refused the write")
	ErrFull     = errors.New("redis is out of memory")          // together with ErrRefused
	ErrUnacked  = errors.New("too few replicas have the write") // the commit is written, and may reach them later
)

// IsDecided reports whether err, a commit's result, tells if the commit was written.
func IsDecided(err error) bool {
	return err == nil || errors.Is(err, ErrLost) || errors.Is(err, ErrQueued) || errors.Is(err, ErrStale) ||
		errors.Is(err, ErrConflict) || errors.Is(err, ErrRefused)
}

// NextToken tells where a commit has put the token of the worker's next hold.
type NextToken int

const (
	NextWaits   NextToken = iota // surely or perhaps in the queue
	NextNowhere                  // nowhere: the lock is free
	NextHolds                    // it has the lock
)

// nextTokens maps replies of commit.lua to NextTokens. The reply nil is missing: it yields NextWaits, the zero value.
var nextTokens = map[any]NextToken{int64(0): NextNowhere, int64(1): NextHolds}

// OnConflict tells a commit without a hold what to do if the lock is free, but the room differs from the writer's
// copy.
type OnConflict int

const (
	LockOnConflict OnConflict = iota // take the lock and read the room: ErrStale
	ReadOnConflict                   // read the room: ErrConflict
	WaitOnConflict                   // nothing, since the writer gets the room from events: ErrConflict
)

// asks returns, for each OnConflict, the argument that lets a commit take the lock: the TTL of the new hold, and the
// name that commit.lua has for the OnConflict.
func asks(ttl string) (asks [3]string) {
	for on, name := range []string{LockOnConflict: "lock", ReadOnConflict: "read", WaitOnConflict: "wait"} {
		asks[on] = ttl + " " + name
	}
	return asks
}

// Hold describes the hold of the lock under which a commit is written.
type Hold struct {
	Node       string     // the writer's name
	Token      string     // the token that has the lock; "" if the writer has no hold
	OnConflict OnConflict // if Token is empty
	Moves      bool       // the commit is part of a move

	// Next is the token of the node's next hold, empty for none. A commit with a Token queues it behind the other nodes
	// that wait. If none waits, Next gets the lock at once; with OnlyQueue it gets nothing, and the lock is free.
	Next      string
	OnlyQueue bool
}

// byField names the field of Meta with the request id of a node's last commit; fieldMoved holds that of the
// last move in the room. By these ids the scripts recognise a commit that is sent again.
func byField(node string) string { return "by:" + node }

const fieldMoved = "moved"

// Commit is one write under one hold. It may be sent more than once.
type Commit struct {
	ID       string       // of the room
	Event    *room.Commit // nil if there is nothing to write
	Epoch    string       // the room's epoch after the commit
	CommitID string       // the room's commit id after the commit

	event   room.Commit // Event points to it
	keys    *Keys
	token   string // the Token of its Hold
	request string // id of the request; no other content has it
	base    string // the commit id on which it builds
	version uint64
	sets    int // number of members that it sets

	// arguments of commit.lua from the token on; without the token if the slot adds it. Those that differ between
	// commits are pointers to fields or into texts, which saves an allocation each
	args  []any
	texts []string

	fewArgs  [16]any // memory of args and texts for an ordinary commit
	fewTexts [4]string

	// the result of WAIT, over all sendings; a nil error if enough replicas have the commit
	acked atomic.Pointer[error]
	// an earlier Send left the outcome open, so a refusal of a later one does not decide the outcome
	doubted bool

	// Set once the commit is written: why Redis refused its event, or its entry in the journal; empty if it did not.
	Unheard, Unlogged string
}

// Token returns the token that the lock must hold, or "" if none is needed.
func (c *Commit) Token() string { return c.token }

// A request id is a random name of this process and a count. It stands for the content: a copy that arrives late is
// never mistaken for a newer commit, whatever token it carries.
var (
	idPrefix = NewName()
	idCount  atomic.Uint64
)

func appendRequestID(dst []byte) []byte {
	return strconv.AppendUint(append(dst, idPrefix...), idCount.Add(1), 36)
}

// add appends texts to the commit's arguments.
func (c *Commit) add(texts ...string) {
	for _, text := range texts {
		c.texts = append(c.texts, text)
		c.args = append(c.args, &c.texts[len(c.texts)-1])
	}
}

// Prepare makes a commit from the changes of a room, to be written under hold h.
func (s *Store) Prepare(r *room.Room, k *Keys, h Hold) *Commit {
	c := &Commit{ID: r.ID, keys: k, token: h.Token, base: r.CommitID, version: r.Next(), Epoch: r.Epoch,
		CommitID: r.CommitID}
	c.args, c.texts = c.fewArgs[:0], c.fewTexts[:0]
	var epoch, idle, journal string
	var onStack [512]byte // enough for an ordinary event with a request id, or a member
	event := onStack[:0]
	var updates []room.Update
	if r.Changed() {
		if r.Epoch == "" || r.Renewed() {
			epoch = NewName()
			c.Epoch = epoch
		}
		c.event, c.Event = *r.Pending(c.Epoch, h.Node), &c.event
		idle, journal, updates = s.idleOf(r), s.journal, c.event.Updates
		event = AppendEvent(event, c.Event)
		c.CommitID = c.event.CommitID
	}
	text := string(appendRequestID(event))
	c.request = text[len(event):]
	fields := metaFields(r, updates)
	history, said := saidArgs(r, c.Event, idle)
	idField := k.byNode(h.Node)
	if h.Moves {
		idField = fieldMoved
	}
	if h.Token != "" {
		c.args = append(c.args, &c.token, "")
	} else {
		c.args = append(c.args, &s.asks[h.OnConflict])
	}
	c.args = append(c.args, &c.request, &c.base, idField, &c.version)
	c.add(text[:len(event)])
	c.args = append(c.args, k.channel, r.Base(), r.Count(), &c.sets)
	c.add(s.optionalArgs(h, epoch, idle, len(fields), journal, history))
	c.args = append(c.args, &c.CommitID)
	c.addMembers(r, updates, onStack[:0])
	c.args = append(append(c.args, fields...), said...)
	return c
}

// addMembers adds the members that updates set, and then those that they remove. buffer is scratch space.
func (c *Commit) addMembers(r *room.Room, updates []room.Update, buffer []byte) {
	for i := range updates {
		user := updates[i].User
		if m, ok := r.Member(user); ok && updates[i].Type.OfMember() {
			c.add(user, string(appendMember(buffer, m)))
			c.sets++
		}
	}
	for i := range updates {
		user := updates[i].User
		if _, ok := r.Member(user); !ok && updates[i].Type.OfMember() {
			c.add(user)
		}
	}
}

// saidArgs returns the arguments that change the room's kept messages, and the optional field that describes them.
// Both are empty if it changes none.
func saidArgs(r *room.Room, event *room.Commit, idle string) (history string, args []any) {
	settings, _ := r.Settings()
	if event == nil || settings.History == 0 && !r.HistoryEnds() {
		return "", nil
	}
	for _, message := range event.SaidIn() {
		args = append(args, marshal(message))
	}
	expiry := idle != "" || r.Base() == 0
	if len(args) == 0 && settings.History > 0 && !expiry {
		return "", nil
	}
	return fmt.Sprint(len(args), settings.History), args
}

// optionalArgs joins the arguments that few commits need into one, separated by spaces. None of them contains a
// space.
func (s *retention) optionalArgs(h Hold, epoch, idle string, fields int, journal, history string) string {
	if h.Next == "" && epoch == "" && idle == "" && fields == 0 && journal == "" && history == "" {
		return ""
	}
	ttl := ""
	if h.Next != "" && !h.OnlyQueue {
		ttl = s.ttl
	}
	if s.feed && idle != "" && idle != s.idle { // the log is kept for a consumer of the feed that may be away
		idle += "/" + s.idle
	}
	args := []string{h.Next, ttl, epoch, idle, strconv.Itoa(fields), journal, history}
	if history == "" {
		args = args[:len(args)-1]
	}
	return strings.TrimSuffix(strings.Join(args, " "), " ")
}

// idleOf returns how long Redis keeps the room in its new state, in ms; "" for a room with members or Keep. Empty
// rooms are kept for Idle; unconfigured ones for Unused, because any player can create many. Bans and removals by
// authority extend that to Idle. In a room with a host they do not: the host is a player.
func (s *retention) idleOf(r *room.Room) string {
	settings, _ := r.Settings()
	switch has := r.State(); {
	case r.Count() > 0 || settings.Keep:
		return ""
	case settings.Default && (settings.Host != "" || len(has.Bans) == 0 && len(has.Gone) == 0):
		return s.unused
	}
	return s.idle
}

const (
	fieldSettings = "settings"
	fieldData     = "data"
	fieldBans     = "bans"
	fieldGone     = "gone"
	fieldTimers   = "timers"
	fieldHost     = "host"
)

type metaField struct {
	name  string
	value any
}

func metaOf(of *room.State) [6]metaField {
	return [...]metaField{{fieldSettings, &of.Settings}, {fieldData, &of.Data}, {fieldBans, &of.Bans},
		{fieldGone, &of.Gone}, {fieldTimers, &of.Timers}, {fieldHost, &of.Host}}
}

// metaFields returns the names and values of the fields of Meta that updates change.
func metaFields(r *room.Room, updates []room.Update) (fields []any) {
	var of *room.State
	for i := range updates { // by index: updates are large, and few concern the room
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

// askFully calls ask. If Redis is out of memory it calls ask once more, with a suffix for the TTL in the request: see
// room_ttl in room.lua.
func askFully(ask func(full string) (*redis.Cmd, error)) (*redis.Cmd, error) {
	cmd, err := ask("")
	if err != nil && redis.HasErrorPrefix(err, "OOM") {
		cmd, err = ask(" full")
	}
	return cmd, err
}

// asking returns the arguments of a commit that may take the lock. full is the suffix from askFully.
func (c *Commit) asking(full string) []any {
	if full == "" {
		return c.args
	}
	return append([]any{*c.args[0].(*string) + full}, c.args[1:]...)
}

// inScript is Redis' mark for an error inside a script.
const inScript = "script: "

// Send sends a commit. A nil error means that it is written, by this or an earlier sending. at tells where the next
// token is. now is the room in Redis after ErrStale, and after ErrConflict unless with WaitOnConflict. After ErrStale
// the commit's Token, or the slot's if it has none, has the lock. Without a Token ErrQueued comes instead of ErrLost.
func (s *Store) Send(ctx context.Context, slot *lockmgr.Slot, c *Commit) (at NextToken, now *room.Room, err error) {
	reply, err := s.run(ctx, c.keys.Meta, CommitScript, func(script *redis.Script) (*redis.Cmd, error) {
		switch {
		case s.acks > 0 && c.Event != nil: // without a write there is nothing to acknowledge
			return s.sendAcked(ctx, slot, script, c)
		case c.token == "":
			return askFully(func(full string) (*redis.Cmd, error) { return slot.Ask(ctx, script, c.asking(full)...) })
		}
		return slot.Run(ctx, script, c.args...), nil
	})
	if err != nil && c.token == "" && !c.doubted && !slot.InDoubt() && !errors.Is(err, ErrUnacked) &&
		!strings.Contains(err.Error(), inScript) {
		// Redis did not receive the commit, or refused to run the script
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

func (s *Store) outcome(ctx context.Context, id string, reply []any, err error) error {
	switch {
	case err != nil && redis.HasErrorPrefix(err, "WRONGTYPE"): // Redis found the wrong type before it wrote anything
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

// incomplete sets Unheard and Unlogged from the part of a reply that begins at from.
func (c *Commit) incomplete(reply []any, from int) {
	if len(reply) > from {
		c.Unheard, _ = reply[from].(string)
	}
	if len(reply) > from+1 {
		c.Unlogged, _ = reply[from+1].(string)
	}
}

// byNode is byField, kept for the next commit of the same node.
func (k *Keys) byNode(node string) any {
	if k.byField == nil || k.node != node {
		k.node, k.byField = node, byField(node)
	}
	return k.byField
}
