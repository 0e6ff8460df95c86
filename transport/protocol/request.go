package protocol

// The actions a request may ask for. Which fields go with which of them, forms says.
const (
	ActionJoin  = "join"  // become a member of a room, and get its events
	ActionLeave = "leave" // stop being a member
	ActionUsers = "users" // read who is in a room, without joining

	ActionWatch   = "watch"   // read who is in a room, and get its events, without joining
	ActionUnwatch = "unwatch" // stop watching; a member goes on getting events

	ActionReady = "ready" // say as a member whether the user is ready
	ActionSet   = "set"   // replace the data of the room, or of the user as its member
	ActionSay   = "say"   // send a message to the room, or to some of its users

	ActionKick      = "kick"      // make somebody leave, and keep them out for a while; for admins
	ActionClose     = "close"     // make everybody leave, and let nobody in; for admins
	ActionConfigure = "configure" // replace the room's settings; for admins

	ActionAuth = "auth" // say with a token who the user is, or show a newer token
	ActionPing = "ping" // nothing, but the reply shows that the connection works
)

// Whose data a set replaces: the Scope of a [Request].
const (
	ScopeRoom   = "room"
	ScopeMember = "member"
)

// Bounds of what is in a request, all inclusive.
const (
	MaxID      = 1<<53 - 1 // the largest whole number that every JSON reader holds exactly
	MaxVersion = MaxID
	MaxSeat    = 1<<16 - 1
	MaxTo      = 64        // users to whom a message goes
	MaxBan     = 315360000 // seconds, ten years
)

// Request is one frame from a client. The zero value is not a valid request: it has no action.
type Request struct {
	// ID is chosen by the client, from 0 to MaxID, and comes back in the reply. Using one twice
	// is allowed, but then the client cannot tell the replies apart.
	ID int64
	// Action is one of the Action constants.
	Action string
	// Room is the room's id as the client wrote it. Its length and characters are not checked, and
	// it may be empty. It goes with every action but ActionAuth and ActionPing.
	Room string
	// Token goes with ActionAuth only. It is not checked here.
	Token string
	// Seat is the seat that a join asks for, from 0 to MaxSeat. Nil means any free seat.
	Seat *int
	// Value says whether the user is ready. Only with ActionReady.
	Value bool
	// User is whom a kick removes. It is not checked here.
	User string
	// Scope says whose data a set replaces: ScopeMember, or ScopeRoom, which empty means, too.
	Scope string
	// Settings are all settings of the room from now on: what is zero is so. Only with
	// ActionConfigure, where it is never nil.
	Settings *Settings
	// Text is a message's, which then is not empty, or the reason of a kick, where empty means none.
	Text string
	// Data is a message's, or what a set stores, where null removes what was stored. Either Data or
	// Text of a message is empty.
	Data JSON
	// To are the users to whom alone a message goes, from 1 to MaxTo different ones. Nil means all
	// who get the room's events.
	To []string
	// Ban is for how long a kick keeps the user out, in seconds, at most MaxBan. 0 means not at all.
	Ban int
	// Expect is the version of the room that a set or a configure builds on, or at which the user
	// of a join was a member, from 0 to MaxVersion. Nil means that there is no such condition.
	Expect *uint64
	// Epoch is the room's life in which Expect counts. Empty means whichever it is now.
	Epoch string
}
