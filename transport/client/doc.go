// Package client connects to roomd: it joins and leaves rooms, follows them, sets their data, and sends
// messages. Start with [Connect]; README.md shows how to write a game with it.
//
// A [Client] is one user who stays connected: when the connection ends, it makes another one, to any of
// its addresses, and restores its rooms. A [Room] is its copy of one room. The package promises:
//
//   - A Room shows the server's frames, applied in order, and can be read at any time. After a
//     reconnect it is the server's room again, on the client's old seat; or it ends, and
//     [Room.Err] says why. A client never chooses another seat by itself, and never undoes a kick, a
//     move or a close that it has missed.
//   - An iteration over [Room.Changes] yields every change exactly once and in order, after its first
//     snapshot; where changes are missing, another snapshot replaces them. A reader that is slow, or
//     never reads, blocks nobody and costs bounded memory.
//   - Each list of an iteration over [Client.Lobby] is complete, as the server had it at one moment. A
//     slow reader gets the newest.
//   - Every request ends: with the server's answer, with the end of its context, or with the end of
//     the client. A request that was not sent waits for a connection. The client repeats a request that
//     a node had not started before it restarted. If a reply is lost, it repeats the request if that does
//     no harm; if it does, the error is [protocol.ErrUnknown].
//   - A [Room.Leave] that returns nil has freed the seat. A user who is moved meanwhile gets another
//     seat, and a Room for it, exactly once, in whatever order the server's frames come.
//   - After [Client.Close] no goroutine of the client runs. A Client calls back into the program only by
//     [Config.Token] and [Config.OnUnreachable]; [Room.Update] and iterations call their functions in
//     the caller's goroutine.
//
// A client does not get messages that were sent while it was not connected, unless the room has kept
// them, nor values that the room's data had only in between.
//
// A [Conn], made by [Dial], is one WebSocket connection of one user and nothing more: it does not
// reconnect, and keeps no copy of a room, but passes on replies and events as they come. A frame of
// the server that is longer than 256 MiB ends the connection.
//
// # Goroutines and locks
//
// A Conn runs two goroutines. One reads: it calls [Options.OnReply] and [Options.OnEvent], and applies replies. The
// other writes. A Client runs one that makes connections (link.go), and for each of them a session (session.go): a
// heartbeat, the renewal of the token, and one for each room that has to be restored. Each iteration over the lobby
// runs one more (lobby.go), which ends before the iteration does.
//
// There are two mutexes. The link's guards its state and everything in its rooms (membership.go, replica.go). Rooms
// change frame by frame, in the reading goroutine of the current connection, and when a connection ends. The Conn's
// mutex guards the requests that wait for replies. It may be locked while the link's is held, but not the other way
// round. Nobody waits, or calls the program, with either of them held.
package client
