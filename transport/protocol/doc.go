// Package protocol encodes and decodes the frames of protocol v1, which transport/PROTOCOL.md
// describes: UTF-8 text frames of one JSON object each, over one WebSocket.
//
// Start with [Request], [Reply] and [Event]. A client sends a Request, which the server decodes with [DecodeRequest].
// The server answers with one Reply, which carries the request's id and either a result or an [Error], and sends an
// Event whenever a room of the client has changed. A client decodes both with [DecodeFrame].
//
// The package promises that a decoded request has one meaning: it refuses unknown fields, fields given twice, names
// in other letter case and anything after the object, because another reader could understand such a frame
// differently. Data that clients store or send is kept as they wrote it, as a [JSON]; a name twice in one of its
// objects is refused, too. The package does not check room ids, user names, nor how long and deep data and texts are:
// package room does. A server's frame may have fields that this package does not know, so that an old client works
// with a newer server.
//
// The package does no I/O and runs no goroutines. All of it is safe for concurrent use, as long as
// nobody changes the values handed in.
package protocol

// Subprotocol is the WebSocket subprotocol that both sides must agree on in the handshake.
const Subprotocol = "roomd.v1"

// TokenSubprotocol is the beginning of a WebSocket subprotocol that carries a token, for browsers,
// which cannot set headers. A client offers it beside [Subprotocol]; the server never selects it.
const TokenSubprotocol = "roomd.token."

// MaxFrame is the length of the longest request that a server reads, in bytes, unless it is told
// otherwise. A longer one ends the connection with [CloseTooBig].
const MaxFrame = 16 << 10

// Close codes with which a server ends a connection, and what a client should do then.
const (
	CloseBroken  = 1002 // a frame that RFC 6455 forbids: a bug in the client
	CloseNotText = 1003 // a binary frame arrived: a bug in the client
	CloseNotUTF8 = 1007 // a text frame was not UTF-8: a bug in the client
	ClosePolicy  = 1008 // a message came in too many frames: a bug in the client
	CloseTooBig  = 1009 // a message was too long: a bug in the client
	// the node restarts: connect again, not all at once. What it has not answered it has not begun
	CloseRestart      = 1012
	CloseReplaced     = 4001 // a newer session of the same user took over: do not connect again
	CloseUnauthorized = 4003 // the token has expired, or none came in time: connect again with a new one
	CloseTooSlow      = 4008 // nothing was read for long: connect again and join
	// too many requests in spite of CodeRateLimited, pings, pongs or fragments: a bug in the client
	CloseTooMany = 4009
)
