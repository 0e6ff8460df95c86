package history

// What a Change, or a request with an unknown outcome, can be about.
const (
	Join  = "join"
	Leave = "leave"

	// Away and Back concern a member, who stays one. Behind Away comes Back or Leave.
	Away = "away"
	Back = "back"

	// Seated gives a member another seat. Who had it gets another one by the same commit.
	Seated = "seat"

	// HostIs makes a member the host of the room, or, without a user, nobody.
	HostIs = "host"

	// Settings concerns the room: its members stay.
	Settings = "settings"

	// MemberState has the whole state of a member, RoomData the data of the room.
	MemberState = "member"
	RoomData    = "data"

	// Private is that a member has other private data. Only that member may be told.
	Private = "private"

	// Countdown sets or cancels the timer Timer of the room, and Fired is when it fires.
	Countdown = "countdown"
	Fired     = "timer"

	// Said is a message. It changes nothing.
	Said = "message"
)

// Why somebody left who did not ask for it. Behind each comes [View.Lost] with the same reason.
const (
	Kicked = "kicked"
	Closed = "closed" // the room was closed
	Moved  = "moved"  // into the room Target
)

// Replaced is the reason of a [View.Lost] behind which the user stays in the room, by another connection.
const Replaced = "replaced"

// Change is the effect of one committed action.
type Change struct {
	Type string // one of the constants, anything else is reported as diverged
	User string
	Seat int // of a join, counted from 0; ignored in a leave
	Detail
	To []string // of a message: whom else it is for; nil: everybody
}

// Detail is what only some kinds of changes have.
type Detail struct {
	Away     bool   // of a join: the seat is reserved, and the user has no connection yet
	Part     string // of private data SetPrivate; of a member: SetReady or SetMember, if only that is told and the other stays; empty: both are
	Ready    bool   // of a member
	Reason   string // of a leave
	Target   string // of a leave with the reason Moved: the other room
	Text     string // of a message, or why somebody was kicked
	Data     string // of a member, the room or a message: JSON, empty if there is none
	Settings Rules  // of settings
	Timer    string // of a countdown, or when one fires: its name
	Set      bool   // of a countdown: it is set, and not cancelled
}

// Rules are the settings of a room.
type Rules struct {
	Capacity int    // how many members there may be; 0: any number
	Closed   bool   // nobody comes in
	Keep     bool   // an empty room is kept
	Data     string // who may set the room's data
	Host     string // Longest: one of the members is the host, as long as there are some
	Labels   Labels
}

// Longest is the policy by which a room has a host.
const Longest = "longest"

// Labels are what a room is for: JSON in the one form that a server gives it, empty for none.
type Labels string

// UnmarshalJSON takes any JSON.
func (l *Labels) UnmarshalJSON(text []byte) error {
	*l = Labels(text)
	return nil
}

// Timers are the names of a room's timers, in order. Nil if they are not known.
type Timers []string

// Member is a user on a seat, which counts from 0.
type Member struct {
	User  string
	Seat  int
	Away  bool
	Ready bool
	Data  string // JSON, empty if there is none
}

// List is a room's list of users, from a reply or a snapshot event.
type List struct {
	Epoch    string
	Version  uint64 // commits of the room in this epoch
	Count    int    // from the message, which may contradict len(Users)
	Users    []Member
	Data     string // of the room: JSON, empty if there is none
	Settings *Rules // nil if the message does not tell them
	Timers   Timers
	Host     string // the user who is it, empty for nobody

	Private map[string]string // by user: the private data that are shown
}

// Event is what was committed after version From, through Version. Changes may be
// empty: a commit may change nothing that a list shows.
type Event struct {
	Epoch   string
	Version uint64
	From    uint64
	Changes []Change // in the order of their commits
}

// RoomState is a room as a store or a node has it. The zero value is a room that
// nobody has ever joined.
type RoomState struct {
	Epoch    string
	Version  uint64
	Users    []Member
	Data     string
	Settings *Rules // nil if they are not known
	Timers   Timers
	Host     string

	Private map[string]string // by user: the private data, of those of whom that is known
}
