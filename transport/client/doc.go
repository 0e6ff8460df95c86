// Package client connects to roomd: it joins and leaves rooms, follows them, sets their data, and sends
// messages. Start with [Connect]; README.md shows how to write a game with it.
//
// A [Client] is one user who stays connected: when the connection ends it makes another one, to any of
// its addresses, and brings its rooms back. A [Room] is its copy of one room. The package promises:
//
//   - A Room is what the server has said, applied in order, and can be read at any time. After a
//     reconnect it is the server's room again, on the seat that the client had, or it ends and
//     [Room.Err] says why. A client never takes another seat by itself, and never undoes a kick, a
//     move or a close that it has missed.
//   - An iteration over [Room.Changes] yields every change exactly once and in order, behind the
//     snapshot with which it begins; where changes are missing another snapshot stands for them. A
//     reader who is slow, or never reads, blocks nobody and costs bounded memory.
//   - A list of an iteration over [Client.Lobby] is a whole one, as the server had it at one moment. A reader
//     who is slow is shown the newest.
//   - Every request ends: with the server's answer, with the end of its context, or with the end of
//     the client. One that was not sent waits for a connection. One that a node
//     has not begun when it restarts is sent again, and so is one whose reply was lost if that does no harm;
//     otherwise the error is [protocol.ErrUnknown].
//   - A [Room.Leave] that returns nil has freed the seat. Who is moved meanwhile gets another one, and
//     a Room of it, exactly once, in whatever order the server's frames come.
//   - After [Client.Close] no goroutine of the client runs. No method calls back into the program, except
//     [Config.Token], and what is passed to [Room.Update] and to iterations, by their own goroutine.
//
// A message that was sent while the client was not connected is lost to it; so is what a room's data
// was in between.
//
// A [Conn], made by [Dial], is one WebSocket connection of one user and nothing more: it does not
// reconnect, and keeps no copy of a room, but passes replies and events on as they come. A frame of
// the server that is longer than 256 MiB ends the connection.
//
// # Goroutines and locks
//
// A Conn runs two goroutines: one reads, and calls [Options.OnReply] and [Options.OnEvent] and what
// waits for replies; one writes. A Client runs one that makes connections (reconnect.go), and for each of
// them a session (session.go): a heartbeat, the renewal of the token, and one for each room that the
// connection lacks. Each iteration over the lobby runs one more (lobby.go), which ends before the iteration does.
//
// There are two mutexes. That of the Client guards its state and everything in its rooms
// (membership.go, replica.go); only the reading goroutine of the present connection, which applies frame
// by frame, and the end of a connection change rooms. That of a Conn guards the requests that wait for
// replies; it may be taken while the Client's is held, and nothing else is. Nobody waits, or calls the
// program, with either of them.
package client
