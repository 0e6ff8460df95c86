package history

// What a Change, or a request with an unknown outcome, can be about.
const (
	Join  = "join"
	Leave = "leave"

	// Away and Back concern a member, who stays one. Behind Away comes Back or Leave.
	Away = "away"
	Back = "back"

	// Settings concerns the room: its members stay.
	Settings = "settings"
)

// Change is the effect of one committed action.
type Change struct {
	Type string // one of the constants, anything else is reported as diverged
	User string
	Seat int // of a join, counted from 0; ignored in a leave
}

// Member is a user on a seat, which counts from 0.
type Member struct {
	User string
	Seat int
}

// List is a room's list of users, from a reply or a snapshot event.
type List struct {
	Epoch   string
	Version uint64 // commits of the room in this epoch
	Count   int    // from the message, which may contradict len(Users)
	Users   []Member
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
	Epoch   string
	Version uint64
	Users   []Member
}
