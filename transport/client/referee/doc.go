// Package referee enforces the rules of a game on a server, because clients may cheat. A program with an
// admin's token is the referee of a room: players propose moves, and only the referee sets the room's data,
// private data and timers.
//
// The game is a Go type whose JSON form is the room's data. [Config.Serve] calls its methods for the events of
// one room, [Config.Run] and [Config.RunLobby] for those of many. The package promises:
//
//   - Each move is one version: everybody sees the data, hands and timers of one call of the game's methods
//     together, or not at all. See transport/protocol/v1/referee.md.
//   - A referee keeps no state of its own. The room has its results, and a record of the events that it has
//     handled: the users in the game, the timers, and the last move. So another referee can continue where it
//     stopped, at any time, and each join, leave, timer and move counts once. A user who came and left while no
//     referee watched was not there, and moves of a user who has left do not count. The referee handles joins,
//     leaves and timers before moves.
//   - With [Config.Locks] a room has one referee at a time, and if that one dies, another within seconds. The
//     server refuses the writes of a referee that continues after its time, because another has set the data
//     since. So nothing is done twice, even without Locks.
//   - Moves that players propose while there is no referee wait in the room. It keeps its last 100 messages, of
//     64 KiB together.
//
// A game's methods must change only the game and the [Table]: if the room has changed meanwhile, the referee
// calls them again with the game as the room has it now.
package referee
