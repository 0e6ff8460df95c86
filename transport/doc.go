// Package transport is roomd's server for game clients: protocol v1 over WebSocket, as PROTOCOL.md describes it, and
// a few HTTP endpoints.
//
// Start with [New], serve [Server.Handler] with net/http, and end with [Server.Shutdown]: net/http's own Shutdown
// does not know the connections that became WebSockets. room/README.md leads through the code.
//
// # What it promises
//
//   - A connection's requests run one after the other, and are answered in that order. For each room, replies and
//     events form one sequence: after a reply that lists the room come the events after its version, each once.
//   - A frame that cannot be understood gets an error and changes nothing; the connection stays open. A breach of
//     the WebSocket protocol ends the connection, and the close code says why.
//   - All queues are bounded, in bytes (Options.MaxQueue). A slow reader gets the events of a room merged into one
//     frame, or a snapshot in place of too many changes; its next request waits while too many bytes of replies
//     wait. Other clients' actions never close a client that reads. A client that reads nothing for
//     Options.WriteTimeout is closed with 4008. A reply or snapshot over the bound is written alone.
//   - When a connection ends, its user keeps the seats for Options.Grace, and then leaves the rooms in which this
//     session is still the active one. A user who joins again before that, through any node, stays. When Shutdown
//     ends the connection, the seats are kept.
//   - A session that was told that it is in a room, and has not left it, is in the room. If it is removed (its node
//     was believed dead, or Redis lost its data), it joins again by itself, on its old seat if that is free. Until
//     then its client gets no events of the room, and then a snapshot: it is never shown the room without itself.
//     If the room is full by then, the client gets the event lost, and further events only if it watches the room.
//   - If a newer session of the user has joined a room, the client of the older one gets the event lost, even if this
//     node learns of it late, or only from a snapshot. Versions decide which session is newer. Until the event the
//     client's view of the room has no gap. The connection keeps its other rooms and watches. If it has none a second
//     later, it is closed with 4001.
//
// # What it does not promise
//
//   - Without Options.Auth a client is the user that it names. With it, a token identifies the client, and the
//     connection ends when the token expires; but anyone who has the token can use it.
//   - A client that sends the same request twice gets two replies; requests are not merged.
//
// # Goroutines
//
// Each connection has one, which reads, runs requests and writes replies. All connections share a few that write
// events, at most one per processor. A connection has another one while its socket accepts no bytes, and one for each
// room that it rejoins or reads again. When it has ended, one shows the user as away in each room, and one leaves the
// room. While there are connections, one checks heartbeats, and one pings Redis. [Server.Shutdown] waits for all.
package transport
