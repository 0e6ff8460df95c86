package room

// Kind says what an Action, a Change or an Update does.
type Kind string

// What can happen to a member, or an action does to one.
const (
	KindJoin  Kind = "join"  // [Join]
	KindLeave Kind = "leave" // [Leave]
	// KindReplace: another session, or the same one on another node, is the active one of the
	// member. It is in Updates only: players do not see it.
	KindReplace Kind = "replace"
	// KindAway: the member's connection is lost, and the seat is kept for a while.
	KindAway Kind = "away"
	// KindBack: a member who was away has an active session again.
	KindBack Kind = "back"
	// KindSeat: the member has another seat. Who had it has another one in the same commit.
	KindSeat Kind = "seat"
	// KindMember: the member has other data ([SetMemberData]), or is ready, or is not ready any more.
	KindMember Kind = "member"
	// KindPrivate: the member has other private data ([Deal]). Only the member and who has authority are told; see
	// [Change.IsFor].
	KindPrivate Kind = "private"
)

// What can happen to a room, or an action does to one.
const (
	// KindSettings: the room has other settings ([Configure]).
	KindSettings Kind = "settings"
	// KindData: the room has other data ([SetData]).
	KindData Kind = "data"
	// KindTimer: one of the room's timers has fired. What it does besides stands behind it. Of an action: [SetTimer].
	KindTimer Kind = "timer"
	// KindCountdown: one of the room's timers was set, or cancelled.
	KindCountdown Kind = "countdown"
	// KindHost: another member is the host, or, without a user, nobody is any more.
	KindHost Kind = "host"
	// KindMessage: somebody said something ([Say]). It changes nothing.
	KindMessage Kind = "message"
	// KindDefaults: a room without settings got those of the Rules. It is in Updates only; players
	// see it as KindSettings.
	KindDefaults Kind = "defaults"
	// KindBan: a user may not come in for a while, or may again. It is in Updates only.
	KindBan Kind = "ban"
)

// What only actions do: their changes are of other kinds.
const (
	KindKick    Kind = "kick"    // [Kick], [Unban]
	KindClose   Kind = "shut"    // [Close]
	KindReserve Kind = "reserve" // [Reserve]
	KindRelease Kind = "release" // [Release]
	KindSwap    Kind = "swap"    // [Swap]
	KindShuffle Kind = "shuffle" // [Shuffle]
	KindTxn     Kind = "txn"     // [Txn]
	KindReady   Kind = "ready"   // [Ready]
	KindDetach  Kind = "detach"  // [Detach]
	KindKeep    Kind = "keep"    // [Keep]
	KindMove    Kind = "move"    // of two rooms at once; see package coordinator

	kindFire  Kind = "fire"  // [Fire], of nodes, when a timer is due
	kindStray Kind = "stray" // [Stray], of nodes after a failure, as the next ones are
	kindEvict Kind = "evict" // [Evict]
	kindRenew Kind = "renew" // [Renew]
	kindUndo  Kind = "undo"  // [Undo]
)

// traits are what follows from a kind.
type traits uint8

const (
	counted   traits = 1 << iota // an action does it, and metrics count it by this name
	shown                        // players are shown changes of the kind
	ofMember                     // updates and changes of the kind are of a member, or make or remove one
	ofSession                    // such an update says which session is the member's, or that none is
)

type kindRow struct {
	Kind
	traits
}

// kinds has a row for each kind but those of nodes: the most frequent first, and changes in the order of the protocol.
var kinds = [...]kindRow{
	{KindJoin, counted | shown | ofMember | ofSession},
	{KindLeave, counted | shown | ofMember | ofSession},
	{KindAway, shown | ofMember | ofSession},
	{KindBack, shown | ofMember | ofSession},
	{KindSeat, shown | ofMember},
	{KindSettings, counted | shown},
	{KindMember, counted | shown | ofMember},
	{KindPrivate, counted | shown | ofMember},
	{KindHost, shown},
	{KindData, counted | shown},
	{KindMessage, counted | shown},
	{KindCountdown, shown},
	{KindTimer, counted | shown},
	{KindReplace, ofMember | ofSession},
	{KindKick, counted}, {KindClose, counted}, {KindReserve, counted}, {KindRelease, counted}, {KindSwap, counted},
	{KindShuffle, counted}, {KindTxn, counted}, {KindReady, counted}, {KindKeep, counted}, {KindDetach, counted},
	{KindDefaults, 0}, {KindBan, 0}, {KindMove, 0},
}

// ActionKinds are those of all actions but of what only nodes do.
var ActionKinds = kindsWith(counted)

// ChangeKinds are those of all changes.
var ChangeKinds = kindsWith(shown)

func kindsWith(t traits) (list []Kind) {
	for _, row := range kinds {
		if row.traits&t != 0 {
			list = append(list, row.Kind)
		}
	}
	return list
}

func (k Kind) has(t traits) bool {
	for i := range kinds {
		if kinds[i].Kind == k {
			return kinds[i].traits&t != 0
		}
	}
	return false
}

// OfMember reports whether such an update or change is of a member, or makes or removes one.
func (k Kind) OfMember() bool { return k.has(ofMember) }
