package room

import (
	"cmp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Kind names an action, a change or an update. [ChangeKinds] and [ActionKinds] list them.
type Kind string

// Changes of a member, and actions on one.
const (
	KindJoin    Kind = "join"    // [Join]
	KindLeave   Kind = "leave"   // [Leave]
	kindReplace Kind = "replace" // another session is active, or the same one on another node; in Updates only
	kindAway    Kind = "away"    // the member's connection is lost, and the seat is kept for a while
	kindBack    Kind = "back"    // a member who was away has an active session again
	kindSeat    Kind = "seat"    // the member has another seat; the seat's former member moves in the same commit
	kindMember  Kind = "member"  // the member has other data ([SetMemberData]), or another readiness
	kindPrivate Kind = "private" // the member has other private data ([Deal]); see [Change.IsFor]
)

// Changes of a room, and actions on one.
const (
	kindSettings  Kind = "settings"  // the room has other settings ([Configure])
	kindData      Kind = "data"      // the room has other data ([SetData])
	kindTimer     Kind = "timer"     // a timer has fired; its effect follows. As an action: [SetTimer]
	KindCountdown Kind = "countdown" // a timer was set, or cancelled
	kindHost      Kind = "host"      // another member is the host; without a user: nobody is
	KindMessage   Kind = "message"   // somebody said something ([Say]). It changes nothing
	kindDefaults  Kind = "defaults"  // a room got the settings of the Rules; in Updates only, players see kindSettings
	kindBan       Kind = "ban"       // a user may not come in for a while, or may again; in Updates only
)

// Actions whose changes are of other kinds.
const (
	kindKick    Kind = "kick"    // [Kick], [Unban]
	kindClose   Kind = "shut"    // [Close]
	kindReserve Kind = "reserve" // [Reserve]
	kindRelease Kind = "release" // [Release]
	kindSwap    Kind = "swap"    // [Swap]
	kindShuffle Kind = "shuffle" // [Shuffle]
	kindTxn     Kind = "txn"     // [Txn]
	kindReady   Kind = "ready"   // [Ready]
	kindAgree   Kind = "agree"   // [Agree]; also of its update, which players are not shown
	kindDetach  Kind = "detach"  // [Detach]
	kindKeep    Kind = "keep"    // [Keep]
	kindUpkeep  Kind = "upkeep"  // [Upkeep], of nodes
)

// traits are properties of a kind.
type traits uint8

const (
	counted   traits = 1 << iota // an action, which metrics count by this name
	shown                        // players are shown changes of the kind
	ofMember                     // its updates and changes add, change or remove a member
	ofSession                    // its updates change a member's active session
)

type kindRow struct {
	Kind
	traits
	field string // see Kind.Field
}

// kinds has a row for each kind except those of nodes: the most frequent first, and changes in the protocol's order.
var kinds = [...]kindRow{
	{KindJoin, counted | shown | ofMember | ofSession, ""},
	{KindLeave, counted | shown | ofMember | ofSession, ""},
	{kindAway, shown | ofMember | ofSession, ""},
	{kindBack, shown | ofMember | ofSession, ""},
	{kindSeat, shown | ofMember, ""},
	{kindSettings, counted | shown, "settings"},
	{kindMember, counted | shown | ofMember, ""},
	{kindPrivate, counted | shown | ofMember, ""},
	{kindHost, shown, "host"},
	{kindData, counted | shown, "data"},
	{KindMessage, counted | shown, ""},
	{KindCountdown, shown, "timers"},
	{kindTimer, counted | shown, "timers"},
	{kindReplace, ofMember | ofSession, ""},
	{kindKick, counted, ""}, {kindClose, counted, ""}, {kindReserve, counted, ""}, {kindRelease, counted, ""},
	{kindSwap, counted, ""}, {kindShuffle, counted, ""}, {kindTxn, counted, ""}, {kindReady, counted, ""},
	{kindAgree, counted | ofMember, ""},
	{kindKeep, counted, ""}, {kindDetach, counted, ""}, {kindDefaults, 0, "settings"}, {kindBan, 0, "bans"},
}

// ActionKinds are the kinds of all actions except those of nodes.
var ActionKinds = kindsWith(counted)

// ChangeKinds are the kinds of all changes.
var ChangeKinds = kindsWith(shown)

func kindsWith(t traits) (list []Kind) {
	for _, row := range kinds {
		if row.traits&t != 0 {
			list = append(list, row.Kind)
		}
	}
	return list
}

func (k Kind) row() *kindRow {
	for i := range kinds {
		if kinds[i].Kind == k {
			return &kinds[i]
		}
	}
	return new(kindRow)
}

func (k Kind) has(t traits) bool { return k.row().traits&t != 0 }

// OfMember reports whether updates and changes of that kind add, change or remove a member.
func (k Kind) OfMember() bool { return k.has(ofMember) }

// OfSession reports whether updates of that kind change a member's active session.
func (k Kind) OfSession() bool { return k.has(ofSession) }

// Field names the field of [State] that an update of that kind changes, as in Redis; "" for none.
func (k Kind) Field() string { return k.row().field }

// Reason is why a member has left.
type Reason string

// The reasons of a KindLeave.
const (
	ReasonLeft    Reason = "left"    // the user wanted to
	ReasonTimeout Reason = "timeout" // the user was away for the grace
	ReasonNode    Reason = "node"    // the user's node died
	reasonKicked  Reason = "kicked"  // somebody with authority over the room removed the user
	reasonClosed  Reason = "closed"  // the room was closed
	ReasonMoved   Reason = "moved"   // the user was moved to another room
)

// Commit has the updates that turn the previous version into this one. Nodes exchange it as JSON.
type Commit struct {
	Position
	Prev    string   `json:"prev"`    // id of the commit that this one builds on; empty for the first
	Node    string   `json:"node"`    // the node of the sessions in Updates
	Updates []Update `json:"changes"` // in order
}

// Update is a change of one user or of the room.
type Update struct {
	Type    Kind   `json:"type"`
	User    string `json:"user"` // empty if the update is of the room
	Seat    int    `json:"seat"`
	Session string `json:"session,omitzero"` // the user's active session after the update
	At      int64  `json:"at,omitzero"`      // of a join, kick, move or close: ms since 1970
	Old     string `json:"old,omitzero"`     // the session that was replaced, or has left before its deadline or at it
	Reason  Reason `json:"reason,omitzero"`  // of a leave

	*Detail `json:",inline"` // nil for most

	node string // Session's node, if the update sets Session; Commit.Node or Detail.Node in JSON
}

// Detail has the optional fields of an update, and does not change once it is part of an update.
type Detail struct {
	Settings *Settings `json:"settings,omitzero"` // the room's settings after the update
	Shut     bool      `json:"shut,omitzero"`     // of settings: everybody has left, the room is closed for good
	Ready    *bool     `json:"ready,omitzero"`    // the member's readiness after the update; nil: unchanged
	// Data of a member, public or private: nil is unchanged, null is none. Of the room or a message: nil is none.
	Data   jsontext.Value `json:"data,omitzero"`
	Text   string         `json:"text,omitzero"`   // of a message, or why a user was kicked
	To     []string       `json:"to,omitzero"`     // the members who get a message; nil for everybody
	Target string         `json:"target,omitzero"` // the room to which a user was moved
	Labels Labels         `json:"labels,omitzero"` // of a party's move
	Until  int64          `json:"until,omitzero"`  // the end of a ban, in ms since 1970; 0 lifts the ban
	Timer  *Countdown     `json:"timer,omitzero"`  // the timer that was set, was cancelled or has fired
	Agreed *Agreement     `json:"agreed,omitzero"` // of a member
	// Again marks an update that restores what Redis had lost or, in a closed room, a session that a failure removed.
	Again bool `json:"again,omitzero"`
	// Node is set in a join that restores a member, and names the session's node. Empty: the commit's node.
	Node string `json:"of,omitzero"`
}

// Countdown is an update of one of the room's timers.
type Countdown struct {
	Name string  `json:"name"`
	Due  int64   `json:"due,omitzero"`  // see Timer; 0 if it was cancelled or has fired
	Was  int64   `json:"was,omitzero"`  // Due of the timer that was replaced or is gone; 0 if there was none
	Then *Effect `json:"then,omitzero"` // see Timer
}

// nodeOf returns the node of the session that an update sets.
func (c *Commit) nodeOf(u *Update) string { return cmp.Or(u.detail().Node, c.Node) }

// home returns the node to which a member belongs after an update of its session; "" for none.
func (u *Update) home() string {
	if Deadline(u.Session) > 0 {
		return ""
	}
	return u.node
}

func (u *Update) detail() Detail {
	if u.Detail == nil {
		return Detail{}
	}
	return *u.Detail
}

// Change is a change of a committed action, as shown to users. Most are for everybody; see [Change.IsFor].
type Change struct {
	Type   Kind   // one of ChangeKinds
	User   string // the affected or acting user; empty if there is none
	Seat   int    // of a member's change: the seat that the member takes, frees or keeps; else 0
	Reason Reason // of a leave
	Away   bool   // of a join: the user has not come yet, or was restored while away

	*Detail // nil for most
}

// Event returns the event that watchers of room id get for c. Recipients still filter its changes by [Change.IsFor].
func (c *Commit) Event(id string) *Event {
	e := &Event{Room: id, Epoch: c.Epoch, Version: c.Version, From: c.Version - 1, Commit: c}
	e.Changes = make([]Change, 0, len(c.Updates))
	for i := range c.Updates {
		switch u := &c.Updates[i]; u.Type {
		case kindReplace, kindBan, kindAgree:
		case kindDefaults:
			if d := u.detail(); d.Settings != nil && *d.Settings != (Settings{Default: d.Settings.Default}) {
				e.Changes = append(e.Changes, Change{Type: kindSettings, Detail: u.Detail})
			}
		default:
			away := u.Type == KindJoin && strings.HasPrefix(u.Session, detached)
			e.Changes = append(e.Changes, Change{u.Type, u.User, u.Seat, u.Reason, away, u.Detail})
		}
	}
	return e
}

// Viewer is a person to whom a room is shown.
type Viewer struct {
	User      string // "" for nobody in particular
	Authority bool   // over the room
}

// IsFor reports whether v may see a change. A message is for everybody if To is nil, for authority if To is empty, and
// otherwise for its sender and To. Private data is for its member and authority. Other changes are for all.
func (c *Change) IsFor(v Viewer) bool {
	switch c.Type {
	case KindMessage:
		switch {
		case c.Detail == nil || c.To == nil:
			return true
		case len(c.To) == 0:
			return v.Authority
		}
		return v.User != "" && c.User == v.User || slices.Contains(c.To, v.User)
	case kindPrivate:
		return v.Authority || v.User != "" && c.User == v.User
	}
	return true
}

// Concerned reports whether a change is not for everybody.
func (c *Change) Concerned() bool { return !c.IsFor(Viewer{}) }
