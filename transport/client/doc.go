// Package client connects to roomd: it joins and leaves rooms, lists their members, sets their data,
// sends messages, and passes on their events. Start with [Dial].
//
// A [Client] is one WebSocket connection of one user. Requests may be made from any number of
// goroutines at once; each waits for the reply with its own id. The package promises that every
// request ends: with the server's answer, with the end of its context, or with the end of the
// connection. In the last two cases the client does not know whether the server did what it was
// asked: ask for the users, or join again, which is no error. To set data again is safe with [Expect].
//
// A client does not reconnect by itself, because what to do then is for the game to decide;
// [CloseError.Reconnect] says whether it makes sense. A user who joins again within the server's
// grace keeps the seats; [Client.Close] gives them up. Nor does a client keep a copy of a room: it passes events on as they come.
//
// A frame of the server that is longer than 64 MiB ends the connection.
//
// Each Client runs two goroutines, one that reads and one that writes. Both have ended when Close
// returns. The first one calls [Options.OnReply] and [Options.OnEvent].
package client
