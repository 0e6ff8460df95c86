// Package client connects to roomd: it joins and leaves rooms, asks who is in them, and passes on
// what happens there. Start with [Dial].
//
// A [Client] is one WebSocket connection of one user. Requests may be made from any number of
// goroutines at once; each waits for the reply that carries its own id. The package promises that
// every request ends: with the server's answer, with the end of its context, or with the end of
// the connection, whichever comes first. In the last two cases nobody can say from here whether
// the server did what was asked: ask for the users, or join again, which is no error.
//
// It does not connect again by itself, because what to do then is for the game to decide:
// [CloseError.Reconnect] says whether it makes sense. Who joins again within the server's grace
// keeps the seats. It keeps no copy of a room either, and
// passes events on as they come.
//
// Two goroutines run for each Client, one that reads and one that writes. Both have ended when
// Close returns. [Options.OnReply] and [Options.OnEvent] are called from the first.
package client
