package room

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
	kindDetach  Kind = "detach"  // [Detach]
	kindKeep    Kind = "keep"    // [Keep]

	kindFire  Kind = "fire"  // [Fire], of nodes, when a timer is due
	kindStray Kind = "stray" // [Stray], of nodes after a failure, like the next ones
	kindEvict Kind = "evict" // [Evict]
	kindRenew Kind = "renew" // [Renew]
	kindUndo  Kind = "undo"  // [Undo]
)

// traits are properties of a kind.
type traits uint8

const (
	counted   traits = 1 << iota // an action, which metrics count by this name
	shown                        // players are shown changes of the kind
	ofMember                     // its updates and changes concern a member, or make or remove one
	ofSession                    // its updates say which session is the member's, or that none is
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

func (k Kind) row() (row kindRow) {
	for i := range kinds {
		if kinds[i].Kind == k {
			return kinds[i]
		}
	}
	return row
}

func (k Kind) has(t traits) bool { return k.row().traits&t != 0 }

// OfMember reports whether an update or change of that kind concerns a member, or makes or removes one.
func (k Kind) OfMember() bool { return k.has(ofMember) }

// Field names the field of [State] that an update of that kind changes, as in Redis; "" for none.
func (k Kind) Field() string { return k.row().field }
