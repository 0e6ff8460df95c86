// Package unguarded is what roomd is compared with: the list without a lock of the article that roomd begins with. A
// player who joins GETs the list, appends the name, and SETs it. Whoever reads while another is about to write gets
// an outdated list, so players who were told "you are in" are not in it, and more of them than there are seats. These
// three steps are the article's. That the list is JSON, has a capacity and expires, that a player can wait between
// reading and writing, as on a slow network, and that players come by WebSocket, is ours.
//
// It is for the page's stampede only, on a server without a key that listens on loopback. New returns the handler of
// its WebSocket, whose frames are like those of /ws: join and users. All of it is bounded: connections, requests of
// each, lists, and players in a list. A list is the key Lobby:Unguarded:<id> and expires after a minute.
//
// Each connection has one goroutine, and Close waits for all.
package unguarded
