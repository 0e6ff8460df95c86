// Package referee keeps the rules of a game on a server, where clients may cheat. A program with an admin's token is
// the referee of a room: players propose moves, and it alone sets the room's data, private data and timers.
//
// The game is a Go type whose JSON form is the room's data. [Config.Serve] calls its methods for what has happened in
// one room, and [Config.Run] and [Config.RunLobby] do so for many. The package promises:
//
//   - Each move is one version: the data, hands and timers that one call of the game's methods has made are seen together, or
//     not at all. See transport/protocol/v1/referee.md.
//   - A referee keeps nothing to itself. What it has done is in the room, together with what it has heeded: who
//     is in the game, which timers run, and the last move. So another one goes on where it stopped, whenever that was, and each
//     join, leave, timer and move counts once. Who has come and gone again while nobody looked was not there, and
//     what a player had proposed who is gone does not count. What happened to members and timers comes before moves.
//   - With [Config.Locks] a room has one referee at a time, and within seconds another one when that dies. Who goes on
//     although its time is over is refused, because somebody has set the data since: so without Locks, too, nothing is done twice.
//   - What players propose while there is no referee waits, as far as the room keeps it: its last 100 messages, of 64 KiB together.
//
// A game's methods change the game and the [Table], and nothing else: where somebody was faster they are called
// again, for a game as it is in the room.
package referee
