// Package referee enforces the rules of a game on a server, because clients may cheat. A program with an admin's token
// is the referee of a room: players propose moves, and only the referee sets the room's data, private data and timers.
//
// The game is a Go type whose JSON form is the room's data. [Config.Serve] calls its methods for the events of
// one room, [Config.Run] and [Config.RunLobby] for those of many. The package promises:
//
//   - Each move is one version: everybody sees the data, hands and timers of one call of the game's methods
//     together, or not at all. See transport/protocol/v1/referee.md.
//   - A referee keeps no state of its own. The room has the game, and a record of the events that its referee
//     has handled: the users in the game, the timers, and the last move. So another referee can continue where
//     one stopped, at any time, and each join, leave, timer and move counts once. The game never hears of a
//     user who came and left while no referee watched, and moves of a user who has left do not count. The
//     referee handles joins, leaves and timers before moves.
//   - With [Config.Locks] a room has one referee at a time. If a referee dies, another one continues within
//     seconds. If two referees write, the server refuses the later write, because it builds on data that the
//     other has replaced. So nothing is done twice, even without Locks.
//   - Moves that players propose while there is no referee wait in the room. It keeps its last 100 messages, of
//     64 KiB together.
//
// A game's methods must change only the game and the [Table]: if the room changes meanwhile, the referee calls
// them again with the game as the room then has it.
package referee
