package protocol

import (
	"strings"
)

// The actions a request may ask for. Actions says what goes with which.
const (
	ActionJoin  = "join"  // become a member of a room, and get its events
	ActionMatch = "match" // become a member of a room with some labels that has a free seat, or of a new one
	ActionLeave = "leave" // stop being a member
	ActionUsers = "users" // read who is in a room, without joining

	ActionWatch   = "watch"   // read who is in a room, and get its events, without joining
	ActionUnwatch = "unwatch" // stop watching; a member goes on getting events

	ActionReady = "ready" // say as a member whether the user is ready
	ActionSet   = "set"   // replace the data of the room, or of the user as its member
	ActionSay   = "say"   // send a message to the room, or to some of its users

	ActionTimer = "timer" // set one of the room's timers, or cancel it

	ActionTxn = "txn" // do several things in one version, all or none; for admins

	ActionKick      = "kick"      // make somebody leave, and keep them out for a while; for the host and admins
	ActionSwap      = "swap"      // have two members exchange their seats; for the host and admins
	ActionShuffle   = "shuffle"   // give each member the seat of another one, at random; for the host and admins
	ActionClose     = "close"     // make everybody leave, and let nobody in; for the host and admins
	ActionConfigure = "configure" // replace the room's settings; for the host and admins

	ActionAuth = "auth" // say with a token who the user is, or show a newer token
	ActionPing = "ping" // nothing, but the reply shows that the connection works, and what time it is at the server
)

// Shape is what the reply to an action has.
type Shape string

// The shapes of replies.
const (
	ShapeList  Shape = "the list"     // who is in the room, its settings and data; of a join the seat, too
	ShapeCount Shape = "the count"    // the room's version, and how many members there are
	ShapeUser  Shape = "`expires`"    // who the client is, and for how long
	ShapeTime  Shape = "`id`, `time`" // the server's clock
)

// Action is what there is to know about an action, beside what it does.
type Action struct {
	Name  string
	Reply Shape
	Host  bool // only the host of the room may, and admins

	// Repeats says that it does no harm to do it twice: a client whose connection ends before the reply
	// sends it again, whatever the close code.
	Repeats bool
	// Stays says that a member of the room may do it, whatever a newer token says of the room.
	Stays bool
	// Cost is how many requests it counts as.
	Cost int
	// Part says that it may be part of a txn. There it has neither id nor room, and expects nothing.
	Part bool

	required, optional fieldSet
}

// Actions is the table of all actions. What goes with what beyond that, checkTogether says.
var Actions = []Action{
	{Name: ActionJoin, Reply: ShapeList, Repeats: true, Cost: 1, required: setOf(fieldRoom), optional: setOf(fieldSeat, fieldBrief, fieldHistory, fieldExpect, fieldEpoch)},
	// It repeats because of its key. It asks Redis for a room first.
	{Name: ActionMatch, Reply: ShapeList, Repeats: true, Cost: 2, required: setOf(fieldLabels), optional: setOf(fieldSettings, fieldKey, fieldBrief)},
	{Name: ActionLeave, Reply: ShapeCount, Repeats: true, Cost: 1, required: setOf(fieldRoom)},
	{Name: ActionUsers, Reply: ShapeList, Repeats: true, Cost: 1, required: setOf(fieldRoom)},
	{Name: ActionWatch, Reply: ShapeList, Repeats: true, Cost: 1, required: setOf(fieldRoom), optional: setOf(fieldHistory, fieldExpect, fieldEpoch)},
	{Name: ActionUnwatch, Reply: ShapeCount, Repeats: true, Stays: true, Cost: 1, required: setOf(fieldRoom)},
	{Name: ActionReady, Reply: ShapeCount, Repeats: true, Stays: true, Cost: 1, required: setOf(fieldRoom, fieldValue)},
	{Name: ActionSet, Reply: ShapeCount, Stays: true, Cost: 1, Part: true, required: setOf(fieldRoom, fieldData), optional: setOf(fieldScope, fieldUser, fieldExpect, fieldEpoch)},
	// The server sends a message to everybody in the room.
	{Name: ActionSay, Reply: ShapeCount, Stays: true, Cost: 5, Part: true, required: setOf(fieldRoom), optional: setOf(fieldText, fieldData, fieldTo)},
	{Name: ActionTimer, Reply: ShapeCount, Stays: true, Cost: 1, Part: true, required: setOf(fieldRoom, fieldName, fieldIn), optional: setOf(fieldThen, fieldExpect, fieldEpoch)},
	{Name: ActionTxn, Reply: ShapeCount, Stays: true, Cost: 5, required: setOf(fieldRoom, fieldActions), optional: setOf(fieldExpect, fieldEpoch)},
	{Name: ActionKick, Reply: ShapeCount, Host: true, Cost: 1, Part: true, required: setOf(fieldRoom, fieldUser), optional: setOf(fieldText, fieldBan)},
	{Name: ActionSwap, Reply: ShapeCount, Host: true, Cost: 1, Part: true, required: setOf(fieldRoom, fieldUsers)},
	{Name: ActionShuffle, Reply: ShapeCount, Host: true, Cost: 1, Part: true, required: setOf(fieldRoom)},
	{Name: ActionClose, Reply: ShapeCount, Host: true, Cost: 1, Part: true, required: setOf(fieldRoom)},
	{Name: ActionConfigure, Reply: ShapeCount, Host: true, Cost: 1, Part: true, required: setOf(fieldRoom, fieldSettings), optional: setOf(fieldExpect, fieldEpoch)},
	{Name: ActionAuth, Reply: ShapeUser, Cost: 1, required: setOf(fieldToken)},
	{Name: ActionPing, Reply: ShapeTime, Cost: 1},
}

// ActionNamed returns the row of an action, nil if there is no such action. It must not be changed.
func ActionNamed[T string | []byte](name T) *Action {
	for i := range Actions {
		if Actions[i].Name == string(name) {
			return &Actions[i]
		}
	}
	return nil
}

// Fields returns which fields a request for the action has, beside its id and action: those that are
// required, and others.
func (a *Action) Fields() (required, optional []string) {
	return a.required.names(), a.optional.names()
}

// ofWhole are the fields that a request has, and a part of a txn has not.
var ofWhole = setOf(fieldID, fieldRoom, fieldExpect, fieldEpoch)

// check returns what is wrong with a request, or a part of a txn, that has those fields: one that is missing goes
// first.
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

// refuse says that a field does not go with the action.
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

// checkTogether returns what is wrong with fields of which each alone is right.
func checkTogether(req *Request, seen fieldSet) *Error {
	if seen.has(fieldEpoch) && !seen.has(fieldExpect) {
		return NewError(CodeBadRequest, "epoch: only goes with expect")
	}
	if req.Then != nil && req.In == nil {
		return NewError(CodeBadRequest, "then: does not go with in null, which cancels the timer")
	}
	if seen.has(fieldUser) && req.Action == ActionSet {
		switch {
		case req.Scope != ScopePrivate:
			return NewError(CodeBadRequest, "user: with set, only goes with the scope private")
		case req.User == "":
			return NewError(CodeBadRequest, "user: must not be empty; without it, your own data is set")
		}
	}
	if req.Action != ActionSay {
		return nil
	}
	switch text, data := seen.has(fieldText), seen.has(fieldData); {
	case text && data:
		return NewError(CodeBadRequest, "data: does not go with text")
	case !text && !data:
		return NewError(CodeBadRequest, "text: required, or data")
	case text && req.Text == "":
		return NewError(CodeBadRequest, "text: must not be empty")
	}
	return nil
}
