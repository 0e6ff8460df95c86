// Package unguarded is the comparison for roomd: the article's list without a lock. To join, a player GETs the list,
// appends a name, and SETs it. If another player writes in between, the list is outdated: players who were told "you
// are in" are missing, and there are more of them than seats. These three steps are the article's. Ours are JSON, a
// capacity, an expiry, WebSockets, and a wait between reading and writing, as on a slow network.
//
// It is for the page's stampede only, on a server without a key that listens on loopback. New returns the handler of
// its WebSocket, whose frames join and users are like those of /ws. Everything is limited: connections, requests per
// connection, lists, and players per list. A list is the key Lobby:Unguarded:<id> and expires after a minute.
//
// Each connection has one goroutine, and Close waits for all.
package unguarded
