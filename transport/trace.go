package transport

// Trace holds functions that a [Server] calls when something happens that an operator counts.
// A nil function is not called. They must not block, and are called from many goroutines.
type Trace struct {
	// Refused is called when a limit refuses a connection or a request, or ends a connection, and
	// with LimitQueue when changes are dropped, for which a snapshot will stand.
	// The limit is one of the Limit constants.
	Refused func(limit string)

	// Connected is called when a WebSocket is open.
	Connected func()

	// Closed is called when the server closes a WebSocket, with the code of its close frame.
	// Clients that close, or vanish, do not count.
	Closed func(code int)

	// Merged is called when so many events of a room wait for a client that they go into a
	// frame with the event before them.
	Merged func(events int)
}

// The limits that [Trace.Refused] names.
const (
	LimitConnections     = "connections"     // of the server
	LimitAddress         = "address"         // connections of an address
	LimitUnauthenticated = "unauthenticated" // connections that have shown no token: one of the address with most is closed
	LimitHandshake       = "handshake"       // time for the handshake, or any HTTP request
	LimitAuth            = "auth_time"       // time until the token
	LimitRate            = "rate"            // requests of a connection
	LimitUserRate        = "user_rate"       // requests of all connections of a user
	LimitFlood           = "flood"           // frames that ask for nothing, or requests over the rate
	LimitFrame           = "frame"           // length of a request
	LimitRooms           = "rooms"           // of a connection
	LimitNewRooms        = "new_rooms"       // that a user begins
	LimitMembers         = "members"         // of a room
	LimitQueue           = "queue"           // of a client that reads slowly
	LimitAPI             = "api"             // requests of the HTTP API that run at once
	LimitAPIRate         = "api_rate"        // requests of the HTTP API a second
)

// Limits returns all limits that [Trace.Refused] can name.
func Limits() []string {
	return []string{
		LimitConnections, LimitAddress, LimitUnauthenticated, LimitHandshake, LimitAuth, LimitRate, LimitUserRate,
		LimitFlood, LimitFrame, LimitRooms, LimitNewRooms, LimitMembers, LimitQueue, LimitAPI, LimitAPIRate,
	}
}

func (t *Trace) refused(limit string) {
	if t != nil && t.Refused != nil {
		t.Refused(limit)
	}
}

func (t *Trace) connected() {
	if t != nil && t.Connected != nil {
		t.Connected()
	}
}

func (t *Trace) closed(code int) {
	if t != nil && t.Closed != nil {
		t.Closed(code)
	}
}

func (t *Trace) merged(events int) {
	if t != nil && t.Merged != nil && events > 0 {
		t.Merged(events)
	}
}
