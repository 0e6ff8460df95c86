// Package transport is roomd's server: protocol v1 over WebSocket, and the few
// HTTP answers beside it.
//
// Start with [New], serve [Server.Handler] with net/http, and end with
// [Server.Shutdown], which net/http's own Shutdown does not replace: it does not
// know the connections that became WebSockets.
//
// # What it promises
//
//   - A connection's requests run one after the other, and their replies come in
//     that order. For each room, replies and events form one sequence: after a
//     reply that lists the room at some version come the events behind that
//     version, without gaps and nothing twice.
//   - A frame that cannot be understood gets an error and changes nothing; the
//     connection stays. What breaks the WebSocket protocol itself ends it, with
//     the close code that says why.
//   - Nothing is queued without end, and bounds are in bytes (Options.MaxQueue). A
//     client that reads slowly gets the events of a room merged into one frame, and is
//     cut off when they grow too long; while too much of its replies is not written
//     yet, its next request waits. One that reads nothing for Options.WriteTimeout is
//     cut off. A reply, or a snapshot, that is longer than the bound is written alone.
//   - When a connection ends, its user keeps the seats for Options.Grace, and then
//     leaves the rooms in which this session still speaks for the user. Who joins
//     again before, through any node, stays; the others see nothing of it. When the
//     server ends it (Shutdown), the seats are kept.
//   - A connection that was told that it is in a room, and has not left it, is in
//     the room. If it is taken out (its node was believed to be dead, or Redis has
//     lost its data) it joins again by itself, on its old seat if that is free. If
//     the room is full meanwhile the seat is lost: the client gets the event lost, and
//     no more events of the room, unless it watches it.
//   - If a newer session of its user has taken the place, the connection is closed with
//     4001, also when the node hears of it late, or only sees by a snapshot that it must
//     have been so (the user has left since). Versions decide which session is newer.
//     What a client reads has no gap up to the close.
//
// # Goroutines
//
// One for each connection, which reads, runs the requests and writes the replies. One
// more while it is told of something else, for each room that a connection joins again,
// and for each room that a user leaves after the grace, until that is done.
// [Server.Shutdown] returns when all have ended.
package transport
