// Package protocol holds the frames of protocol v1: what a game client and roomd say to each
// other over one WebSocket, as UTF-8 text frames of one JSON object each.
//
// A client sends a [Request]; the server decodes it with [DecodeRequest], which checks the shape
// of the JSON and nothing else: which room ids and user names are allowed is a rule of the game,
// and lives with the rooms. The server answers every request with one [Reply] that carries the
// request's id and either a result or an [Error], and sends an [Event] whenever a room the client
// follows has changed. A client decodes both with [DecodeFrame].
//
// The two directions differ in strictness on purpose. A request with a field the server does not
// know, a field given twice, a name in the wrong letter case or anything after the object is
// refused: what two readers of one frame could understand differently must not change a room. A
// server's frame may carry more than this package knows, so that an old client goes on working
// when the protocol grows.
//
// The package is pure: no I/O, no goroutines, no clock. Everything in it is safe for concurrent
// use, as long as nobody changes the values handed in meanwhile.
package protocol

// Subprotocol is the WebSocket subprotocol that both sides must agree on in the handshake.
const Subprotocol = "roomd.v1"

// MaxFrame is the largest request a server reads, in bytes. It is far more than any honest
// request needs; a longer one ends the connection with [CloseTooBig].
const MaxFrame = 16 << 10

// Close codes that a server ends a connection with, and what a client best does then.
const (
	CloseGoingAway    = 1001 // the node shuts down: connect again
	CloseNotText      = 1003 // a binary frame arrived: a bug in the client
	CloseNotUTF8      = 1007 // a text frame was not UTF-8: a bug in the client
	CloseTooBig       = 1009 // a frame was longer than MaxFrame: a bug in the client
	CloseRestart      = 1012 // the node restarts: connect again, not all at once
	CloseReplaced     = 4001 // a newer session of the same user took over: do not connect again
	CloseUnauthorized = 4003 // the user was not believed: get a new token first
	CloseTooSlow      = 4008 // events were not read fast enough: connect again and ask for users
	CloseTooMany      = 4009 // far too many requests: connect again, and send fewer
)
