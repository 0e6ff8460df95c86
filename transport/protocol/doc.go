// Package protocol encodes and decodes the frames of protocol v1, described in transport/PROTOCOL.md: UTF-8 text
// frames of one JSON object each, over one WebSocket.
//
// Start with [Request], [Reply] and [Event]. A client sends a Request, and the server decodes it with
// [DecodeRequest]. The server answers with one Reply, which has the request's id and either a result or an [Error],
// and sends an Event whenever a room of the client has changed. A client decodes both with [DecodeFrame].
//
// A decoded request has one meaning: the package refuses unknown and repeated fields, names in other letter case and
// anything after the object, because another reader could understand such a frame differently. It keeps clients' data
// as written, as a [JSON] without repeated names. Package room checks room ids, user names, and the length and depth
// of data and texts. A server's frame may have unknown fields, so that an old client works with a newer server.
//
// The package does no I/O and runs no goroutines. Calls may run at once if nobody changes their arguments meanwhile.
package protocol

// Subprotocol is the WebSocket subprotocol that both sides must agree on in the handshake.
const Subprotocol = "roomd.v1"

// TokenSubprotocol is the prefix of a WebSocket subprotocol that carries a token: browsers cannot set headers. A
// client offers it beside [Subprotocol]; the server never selects it.
const TokenSubprotocol = "roomd.token."

// MaxFrame is the default limit of a request, in bytes. A longer one ends the connection with [CloseTooBig].
const MaxFrame = 16 << 10

// Close codes of a server, and how a client should react.
const (
	CloseBroken  = 1002 // a frame that RFC 6455 forbids: a bug in the client
	CloseNotText = 1003 // a binary frame arrived: a bug in the client
	CloseNotUTF8 = 1007 // a text frame was not UTF-8: a bug in the client
	ClosePolicy  = 1008 // a message came in too many frames: a bug in the client
	CloseTooBig  = 1009 // a message was too long: a bug in the client
	// the node restarts: connect again, not all at once. Unanswered requests were not run
	CloseRestart      = 1012
	CloseReplaced     = 4001 // a newer session of the same user took over: do not connect again
	CloseUnauthorized = 4003 // the token has expired, or none came in time: connect again with a new one
	CloseTooSlow      = 4008 // the client has read nothing for long: connect again and join
	// too many requests despite CodeRateLimited, or too many pings, pongs or fragments: a bug in the client
	CloseTooMany = 4009
)
