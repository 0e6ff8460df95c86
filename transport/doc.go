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
//   - Nothing is queued without end. A client that reads slowly gets the events of
//     a room merged into one frame, and is cut off when that grows too long.
//   - When a connection ends, its user leaves the rooms in which this session
//     still spoke for the user. When the server ends it (Shutdown), the user keeps
//     the seats, to come back to them through another node.
//
// # Goroutines
//
// Two for each connection: one reads and runs its requests, one writes.
package transport
