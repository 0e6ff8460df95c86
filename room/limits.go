package room

import "cmp"

// Defaults of [Limits], in bytes.
const (
	DefaultMemberData  = 1 << 10
	DefaultPrivateData = 1 << 10
	DefaultRoomData    = 8 << 10
	DefaultMessage     = 2 << 10
)

// Limits that cannot be changed.
const (
	MaxGroup    = 64      // users of a party, whom one message is for, or who are dealt private data at once
	MaxBans     = 1000    // of a room
	MaxKickText = 200     // bytes of why somebody is kicked
	MaxLimit    = 1 << 20 // bytes: what Limits may allow
)

// Limits bound what users can set and say, in bytes of JSON or text. Zero means the default. They
// count where something is written: a node shows what another one has allowed.
type Limits struct {
	MemberData  int // of each member; zero means DefaultMemberData
	PrivateData int // data of each member that the others do not see; zero means DefaultPrivateData
	RoomData    int // of a room; zero means DefaultRoomData
	Message     int // zero means DefaultMessage
}

func (l Limits) memberData() int  { return cmp.Or(l.MemberData, DefaultMemberData) }
func (l Limits) privateData() int { return cmp.Or(l.PrivateData, DefaultPrivateData) }
func (l Limits) roomData() int    { return cmp.Or(l.RoomData, DefaultRoomData) }
func (l Limits) message() int     { return cmp.Or(l.Message, DefaultMessage) }

func (l Limits) check() error {
	for field, n := range map[string]int{"MemberData": l.MemberData, "PrivateData": l.PrivateData, "RoomData": l.RoomData, "Message": l.Message} {
		if n < 0 || n > MaxLimit {
			return tooLong(field, n, MaxLimit)
		}
	}
	return nil
}
