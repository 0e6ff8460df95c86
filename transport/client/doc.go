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
//   - Every request ends: with the server's answer, with the end of its context, or with the end of
//     the client. One that was not sent waits for a connection. One whose reply was lost is sent again
//     if that does no harm; otherwise the error is [protocol.ErrUnknown].
//   - After [Client.Close] no goroutine of the client runs. No method calls back into the program, except
//     [Config.Token], and what is passed to [Room.Update] and to iterations, by their own goroutine.
//
// A message that was sent while the client was not connected is lost to it; so is what a room's data
// was in between.
//
// A [Conn], made by [Dial], is one WebSocket connection of one user and nothing more: it does not
// reconnect, and keeps no copy of a room, but passes replies and events on as they come. It runs two
// goroutines, one that reads, and calls [Options.OnReply] and [Options.OnEvent], and one that writes.
// A Client runs one more, and for each connection one for the heartbeat, one that renews the token, and
// one for each room until it is back.
//
// A frame of the server that is longer than 64 MiB ends the connection.
package client
