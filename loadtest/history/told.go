package history

// What a Change, or a request with an unknown outcome, can be about.
const (
	Join  = "join"
	Leave = "leave"
)

// Change is what one committed action did.
type Change struct {
	Type string // Join or Leave; anything else is reported as diverged
	User string
	Seat int // taken by a join, counted from 0; not looked at in a leave
}

// Member is a user on a seat, which counts from 0.
type Member struct {
	User string
	Seat int
}

// List is a room's list of users as a reply or a snapshot event gave it.
type List struct {
	Epoch   string
	Version uint64 // commits of the room in this epoch
	Count   int    // as told, which need not be len(Users)
	Users   []Member
}

// Event tells what was committed after version From, up to and with Version. A
// commit may have changed nothing that a list shows: Changes may be empty.
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
