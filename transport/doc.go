// Package transport is roomd's server of game clients: protocol v1 over WebSocket, which
// PROTOCOL.md describes, and the few HTTP answers beside it.
//
// Start with [New], serve [Server.Handler] with net/http, and end with [Server.Shutdown]. net/http's own Shutdown
// does not replace it: it does not know the connections that became WebSockets.
//
// # A reader's way
//
// A request goes down through accept.go (the handshake, and who asks for it), internal/ws (its bytes) and
// internal/session: session.go and request.go (what it asks for), to package room. An event comes up from there: it
// enters in presence.go of the session, which is a session in one room, and goes on through internal/outbox (the queue
// that orders and bounds events and replies) and internal/frames (which encodes it) to internal/ws, which writes it.
// What an event or a reply makes of a session is one table, in internal/membership. Beside these ways are, in the
// session, recovery.go (how it comes back after a failure, or follows a move), waiting.go (what waits for that) and
// access.go (what its token allows), and here disconnect.go (how long it keeps its seats without a connection).
//
// # What it promises
//
//   - A connection's requests run one after the other, and their replies come in that order.
//     For each room, replies and events form one sequence: after a reply that lists the room
//     come the events behind its version, without gaps and none twice.
//   - A frame that cannot be understood gets an error and changes nothing; the connection
//     stays open. A breach of the WebSocket protocol ends it, with the close code that says why.
//   - All queues are bounded, in bytes (Options.MaxQueue). A client that reads slowly gets the
//     events of a room merged into one frame, and a snapshot in place of changes that are too
//     many, of which one event may be; while too many bytes of replies wait, its next request
//     does, too. Who reads is never closed for what others do. A client that reads nothing
//     for Options.WriteTimeout is closed with 4008. A reply or a snapshot that is longer than
//     the bound is written alone.
//   - When a connection ends, its user keeps the seats for Options.Grace, and then leaves the
//     rooms in which this session still speaks for the user. A user who joins again before,
//     through any node, stays; the others see nothing of it. When Shutdown ends the connection,
//     the seats are kept.
//   - A session that was told that it is in a room, and has not left it, is in the room. If it
//     is removed (its node was believed to be dead, or Redis has lost its data) it joins again by
//     itself, on its old seat if that is free. Until then its client gets no events of the room, and
//     then a snapshot: it is never shown the room without itself. If the room is full by then, the
//     client gets the event lost, and no more events of the room, unless it watches it.
//   - If a newer session of its user has joined a room, the client gets the event lost, also when
//     this node learns of it late, or only from a snapshot. Versions decide which session is
//     newer. The connection keeps its other rooms, and what it watches. If nothing is left to
//     it a second later, it is closed with 4001. What a client reads of a room has no gap up to the loss.
//
// # What it does not promise
//
//   - Without Options.Auth a client is the user that it names. With it, a token says who the
//     client is, and the connection ends when the token expires; but a token can be used by
//     whoever has it.
//   - A client that sends the same request twice gets two replies; requests are not merged.
//
// # Goroutines
//
// Each connection has one, which reads, runs the requests and writes the replies. Events are written by a few, at
// most one for each processor, that all connections share. A connection has another while its socket does not take
// what is written, one for each room that it joins again or reads because it has missed events, and one for each room
// that its user leaves after the grace. While there are connections, one goroutine looks after their heartbeats, and
// one whether Redis answers. [Server.Shutdown] returns when all have ended.
package transport
