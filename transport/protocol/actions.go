package protocol

import (
	"cmp"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"strconv"
	"strings"

	"roomd/room"
)

// The actions of a [Request]. [Actions] has their fields and replies.
const (
	ActionJoin  = "join"  // become a member of a room, and get its events
	ActionMatch = "match" // become a member of a room with some labels and a free seat, or of a new one
	ActionLeave = "leave" // stop being a member
	ActionUsers = "users" // read who is in a room, without joining

	ActionWatch   = "watch"   // read who is in a room, and get its events, without joining
	ActionUnwatch = "unwatch" // stop watching; a member goes on getting events

	ActionReady = "ready" // say whether the user is ready, as a member
	ActionSet   = "set"   // replace the data of the room, or of a member
	ActionSay   = "say"   // send a message to the room, or to some of its users

	ActionTimer = "timer" // set one of the room's timers, or cancel it

	ActionTxn = "txn" // do several actions in one version, all or none; for admins

	ActionKick      = "kick"      // make a user leave, and keep the user out for a while; for the host and admins
	ActionSwap      = "swap"      // have two members exchange their seats; for the host and admins
	ActionShuffle   = "shuffle"   // give each member the seat of another one, at random; for the host and admins
	ActionClose     = "close"     // make everybody leave, and let nobody in; for the host and admins
	ActionConfigure = "configure" // replace the room's settings; for the host and admins

	ActionAuth = "auth" // show the first token, or a newer one
	ActionPing = "ping" // do nothing; the reply shows that the connection works, and the server's time
)

// Shape is the content of an action's reply.
type Shape string

// The shapes of replies.
const (
	ShapeList  Shape = "the list"     // the members, settings and data; for a join or a match the seat, too
	ShapeCount Shape = "the count"    // the room's version, and the number of members
	ShapeUser  Shape = "`expires`"    // the client's user, and when the token expires
	ShapeTime  Shape = "`id`, `time`" // the server's clock
)

// field is a field of a request's object: an index of fieldTable.
type field int

const (
	fieldID field = iota
	fieldAction
	fieldRoom
	fieldToken
	fieldSeat
	fieldBrief
	fieldHistory
	fieldValue
	fieldUser
	fieldScope
	fieldSettings
	fieldLabels
	fieldKey
	fieldParty
	fieldText
	fieldData
	fieldTo
	fieldUsers
	fieldName
	fieldIn
	fieldThen
	fieldActions
	fieldBan
	fieldExpect
	fieldEpoch
	fieldUnknown
)

// fieldTable has a row for each field. The decoder and AppendRequest follow it.
var fieldTable = [...]fieldRow{
	fieldID:      {name: "id", most: MaxID, in: func(r *Request) any { return &r.ID }},
	fieldAction:  {name: "action", in: func(r *Request) any { return &r.Action }},
	fieldRoom:    {name: "room", in: func(r *Request) any { return &r.Room }},
	fieldToken:   {name: "token", in: func(r *Request) any { return &r.Token }},
	fieldSeat:    {name: "seat", most: MaxSeat, in: func(r *Request) any { return &r.Seat }},
	fieldBrief:   {name: "brief", in: func(r *Request) any { return &r.Brief }},
	fieldHistory: {name: "history", most: MaxHistory, in: func(r *Request) any { return &r.History }},
	fieldValue:   {name: "value", in: func(r *Request) any { return &r.Value }},
	fieldUser:    {name: "user", in: func(r *Request) any { return &r.User }},
	fieldScope: {name: "scope", choices: []string{ScopeRoom, ScopeMember, ScopePrivate},
		in: func(r *Request) any { return &r.Scope }},
	fieldSettings: {name: "settings", in: func(r *Request) any { return &r.Settings }},
	fieldLabels:   {name: "labels", in: func(r *Request) any { return &r.Labels }},
	fieldKey:      {name: "key", in: func(r *Request) any { return &r.Key }},
	fieldParty:    {name: "party", in: func(r *Request) any { return &r.Party }},
	fieldText:     {name: "text", in: func(r *Request) any { return &r.Text }},
	fieldData:     {name: "data", in: func(r *Request) any { return &r.Data }},
	fieldTo:       {name: "to", most: MaxTo, in: func(r *Request) any { return &r.To }},
	fieldUsers:    {name: "users", least: 1, most: room.MaxGroup, in: func(r *Request) any { return &r.Users }},
	fieldName:     {name: "name", in: func(r *Request) any { return &r.Name }},
	fieldIn:       {name: "in", most: MaxTimer, in: func(r *Request) any { return &r.In }},
	fieldThen:     {name: "then", in: func(r *Request) any { return &r.Then }},
	fieldActions:  {name: "actions", least: 1, most: MaxTxn, in: func(r *Request) any { return &r.Actions }},
	fieldBan:      {name: "ban", least: 1, most: MaxBan, in: func(r *Request) any { return &r.Ban }},
	fieldExpect:   {name: "expect", most: MaxVersion, in: func(r *Request) any { return &r.Expect }},
	fieldEpoch:    {name: "epoch", in: func(r *Request) any { return &r.Epoch }},
}

// fieldRow has a field's name, limits (of a number, or an array's length), choices, and address in a Request.
type fieldRow struct {
	name        string
	least, most int64
	choices     []string
	in          func(*Request) any
}

// span describes how many values an array may have.
func (r *fieldRow) span() string {
	if r.least == r.most {
		return strconv.FormatInt(r.most, 10)
	}
	return fmt.Sprintf("%d to %d", r.least, r.most)
}

func (f field) name() string { return fieldTable[f].name }

// fieldSet is a set of fields, a bit for each.
type fieldSet uint

func setOf(fields ...field) (set fieldSet) {
	for _, f := range fields {
		set |= 1 << f
	}
	return set
}

func (s fieldSet) has(f field) bool { return s&(1<<f) != 0 }

// first returns the first field of a set that is not empty.
func (s fieldSet) first() field { return field(bits.TrailingZeros(uint(s))) }

func (s fieldSet) names() (names []string) {
	for ; s != 0; s &= s - 1 {
		names = append(names, s.first().name())
	}
	return names
}

// Action is a row of the table of actions.
type Action struct {
	Name  string
	Reply Shape
	Host  bool // only for the host of the room, and admins

	// Repeats says that a client repeats it if the connection ends before the reply, whatever the close code.
	Repeats bool
	// Stays says that a member of the room is allowed to do it, whatever a newer token says.
	Stays bool
	// Cost is how many requests it counts as, for the rate limits.
	Cost int
	// Part says that it may be part of a txn. There it has no id, room or expect.
	Part bool

	required, optional fieldSet

	// of returns the action in the room. It is nil for a txn, and for an action that the session itself handles.
	of func(in *Request, by Actor) room.Action
}

// Actor is the user of a request. Claim is zero for an admin: see [room.Claim].
type Actor interface {
	User() string
	Session() string
	Claim() room.Claim
	Authority() bool                      // the user is an admin of the room
	RequireAuthority(action string) error // nil for an admin of the room
	Now() int64                           // by the clock that all nodes share, in ms since 1970
}

// Actions is the table of all actions. checkTogether has the rules about several fields.
var Actions = []Action{
	{Name: ActionJoin, Reply: ShapeList, Repeats: true, Cost: 1, required: setOf(fieldRoom),
		optional: setOf(fieldSeat, fieldBrief, fieldHistory, fieldExpect, fieldEpoch)},
	// Repeats: its key finds the same room again, and the party's room remembers where the user was moved. Cost: it
	// asks Redis for a room first.
	{Name: ActionMatch, Reply: ShapeList, Repeats: true, Cost: 2, required: setOf(fieldLabels),
		optional: setOf(fieldSettings, fieldKey, fieldBrief, fieldParty, fieldUsers)},
	{Name: ActionLeave, Reply: ShapeCount, Repeats: true, Cost: 1, required: setOf(fieldRoom)},
	{Name: ActionUsers, Reply: ShapeList, Repeats: true, Cost: 1, required: setOf(fieldRoom)},
	{Name: ActionWatch, Reply: ShapeList, Repeats: true, Cost: 1, required: setOf(fieldRoom),
		optional: setOf(fieldHistory, fieldExpect, fieldEpoch)},
	{Name: ActionUnwatch, Reply: ShapeCount, Repeats: true, Stays: true, Cost: 1, required: setOf(fieldRoom)},
	{Name: ActionReady, Reply: ShapeCount, Repeats: true, Stays: true, Cost: 1, required: setOf(fieldRoom, fieldValue),
		of: func(in *Request, by Actor) room.Action {
			return room.Ready{User: by.User(), Session: by.Session(), Value: in.Value}
		}},
	{Name: ActionSet, Reply: ShapeCount, Stays: true, Cost: 1, Part: true,
		required: setOf(fieldRoom, fieldData), optional: setOf(fieldScope, fieldUser, fieldExpect, fieldEpoch),
		of: setting},
	// The server sends a message to everybody in the room, or only to those in To.
	{Name: ActionSay, Reply: ShapeCount, Stays: true, Cost: 5, Part: true, required: setOf(fieldRoom),
		optional: setOf(fieldText, fieldData, fieldTo),
		of: func(in *Request, by Actor) room.Action {
			return room.Say{User: by.User(), Session: by.Session(), Text: in.Text, Data: string(in.Data), To: in.To,
				Authority: by.Authority()}
		}},
	{Name: ActionTimer, Reply: ShapeCount, Stays: true, Cost: 1, Part: true,
		required: setOf(fieldRoom, fieldName, fieldIn), optional: setOf(fieldThen, fieldExpect, fieldEpoch),
		of: func(in *Request, by Actor) room.Action {
			return room.SetTimer{
				User: by.User(), Session: by.Session(), Authority: by.Authority(), Expect: in.Condition(),
				Name: in.Name, In: valueOf(in.In), Then: valueOf(in.Then), Stop: in.In == nil,
			}
		}},
	{Name: ActionTxn, Reply: ShapeCount, Stays: true, Cost: 5, required: setOf(fieldRoom, fieldActions),
		optional: setOf(fieldExpect, fieldEpoch)},
	{Name: ActionKick, Reply: ShapeCount, Host: true, Cost: 1, Part: true, required: setOf(fieldRoom, fieldUser),
		optional: setOf(fieldText, fieldBan),
		of: func(in *Request, by Actor) room.Action {
			kick := room.Kick{User: in.User, Text: in.Text, As: by.Claim()}
			if in.Ban > 0 {
				kick.Until = by.Now() + int64(in.Ban)*1000
			}
			return kick
		}},
	{Name: ActionSwap, Reply: ShapeCount, Host: true, Cost: 1, Part: true, required: setOf(fieldRoom, fieldUsers),
		of: func(in *Request, by Actor) room.Action { return room.Swap{Users: in.Users, As: by.Claim()} }},
	{Name: ActionShuffle, Reply: ShapeCount, Host: true, Cost: 1, Part: true, required: setOf(fieldRoom),
		of: func(_ *Request, by Actor) room.Action { return room.Shuffle{Seed: rand.Uint64(), As: by.Claim()} }},
	{Name: ActionClose, Reply: ShapeCount, Host: true, Cost: 1, Part: true, required: setOf(fieldRoom),
		of: func(_ *Request, by Actor) room.Action { return room.Close{As: by.Claim()} }},
	{Name: ActionConfigure, Reply: ShapeCount, Host: true, Cost: 1, Part: true,
		required: setOf(fieldRoom, fieldSettings), optional: setOf(fieldExpect, fieldEpoch),
		of: func(in *Request, by Actor) room.Action {
			return room.Configure{Settings: *in.Settings, Expect: in.Condition(), As: by.Claim()}
		}},
	{Name: ActionAuth, Reply: ShapeUser, Cost: 1, required: setOf(fieldToken)},
	{Name: ActionPing, Reply: ShapeTime, Cost: 1},
}

func setting(in *Request, by Actor) room.Action {
	data, expect := string(in.Data), in.Condition()
	switch {
	case in.Scope == ScopeMember:
		return room.SetMemberData{User: by.User(), Session: by.Session(), Data: data, Expect: expect}
	case in.Scope != ScopePrivate:
		return room.SetData{User: by.User(), Session: by.Session(), Data: data, Authority: by.Authority(),
			Expect: expect}
	case in.User == "":
		return room.Deal{User: by.User(), Session: by.Session(), Hands: []room.Hand{{User: by.User(), Data: data}},
			Expect: expect}
	}
	return room.Deal{Hands: []room.Hand{{User: in.User, Data: data}}, Expect: expect}
}

func valueOf[T any](p *T) (value T) { return *cmp.Or(p, &value) }

// ActionBy returns the request's action in the room, done by that Actor. It fails with CodeUnknownAction if the
// action is unknown or the session itself handles it, and with the error of RequireAuthority if by must be an admin.
func (r *Request) ActionBy(by Actor) (room.Action, error) {
	a := ActionNamed(r.Action)
	switch {
	case r.Action == ActionTxn:
		return r.txn(by)
	case a == nil || a.of == nil:
		return nil, UnknownAction(r.Action)
	case r.Action == ActionSet && r.User != "":
		if err := by.RequireAuthority("setting the private data of others"); err != nil {
			return nil, err
		}
	}
	return a.of(r, by), nil
}

func (r *Request) txn(by Actor) (room.Action, error) {
	if err := by.RequireAuthority("a txn"); err != nil {
		return nil, err
	}
	txn := room.Txn{Expect: r.Condition()}
	for i := range r.Actions {
		part, err := r.Actions[i].ActionBy(by)
		if err != nil {
			return nil, err
		}
		txn.Actions = append(txn.Actions, part)
	}
	return txn, nil
}

// Condition returns the version that the request builds on; zero if it names none.
func (r *Request) Condition() room.Expect {
	if r.Expect == nil {
		return room.Expect{}
	}
	return room.ExpectVersion(r.Epoch, *r.Expect)
}

// ActionNamed returns the row of an action, nil if there is none. Do not change the row.
func ActionNamed[T string | []byte](name T) *Action {
	for i := range Actions {
		if Actions[i].Name == string(name) {
			return &Actions[i]
		}
	}
	return nil
}

// Fields returns the names of the required and of the optional fields, without id and action.
func (a *Action) Fields() (required, optional []string) {
	return a.required.names(), a.optional.names()
}

// ofWhole are the fields of a request that a part of a txn lacks.
var ofWhole = setOf(fieldID, fieldRoom, fieldExpect, fieldEpoch)

// check returns the fault of a request, or nil. seen are its fields; part says that it is a part of a txn.
func (a *Action) check(req *Request, seen fieldSet, part bool) *Error {
	need, known := a.required|setOf(fieldID, fieldAction), a.required|a.optional|setOf(fieldID, fieldAction)
	if part {
		if !a.Part {
			return NewError(CodeBadRequest, "action: %s is no part of a txn", a.Name)
		}
		need, known = need&^ofWhole, known&^ofWhole
		if whole := seen & ofWhole; whole != 0 {
			return NewError(CodeBadRequest, "%s: goes with the txn, and not with its parts", whole.first().name())
		}
	}
	if missing := need &^ seen; missing != 0 {
		return required(missing.first())
	}
	if foreign := seen &^ known; foreign != 0 {
		return a.refuse(foreign.first())
	}
	return checkTogether(req, seen)
}

func required(f field) *Error { return NewError(CodeBadRequest, "%s: required", f.name()) }

func (a *Action) refuse(foreign field) *Error {
	var others []string
	for _, other := range Actions {
		if (other.required | other.optional).has(foreign) {
			others = append(others, other.Name)
		}
	}
	if len(others) > len(Actions)/2 {
		return NewError(CodeBadRequest, "%s: does not go with %s", foreign.name(), a.Name)
	}
	return NewError(CodeBadRequest, "%s: only goes with %s", foreign.name(), strings.Join(others, " and "))
}

// checkTogether returns the fault of fields that do not go together, or nil.
func checkTogether(req *Request, seen fieldSet) *Error {
	text, data, wrong := seen.has(fieldText), seen.has(fieldData), ""
	switch say, whose := req.Action == ActionSay, req.Action == ActionSet && seen.has(fieldUser); {
	case seen.has(fieldEpoch) && !seen.has(fieldExpect):
		wrong = "epoch: only goes with expect"
	case seen.has(fieldParty) && req.Party == "":
		wrong = "party: must not be empty"
	case req.Action == ActionMatch && seen.has(fieldUsers) && !seen.has(fieldParty):
		wrong = "users: with match, only goes with party"
	case req.Action == ActionSwap && len(req.Users) != 2:
		wrong = fmt.Sprintf("users: must have 2 users, not %d", len(req.Users))
	case req.Then != nil && req.In == nil:
		wrong = "then: does not go with in null, which cancels the timer"
	case whose && req.Scope != ScopePrivate:
		wrong = "user: with set, only goes with the scope private"
	case whose && req.User == "":
		wrong = "user: must not be empty; without it, your own data is set"
	case say && text && data:
		wrong = "data: does not go with text"
	case say && !text && !data:
		wrong = "text: required, or data"
	case say && text && req.Text == "":
		wrong = "text: must not be empty"
	default:
		return nil
	}
	return NewError(CodeBadRequest, "%s", wrong)
}
