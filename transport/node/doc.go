// Package node puts one roomd node together: a Redis client, a coordinator of rooms, and a
// server of game clients on a TCP port. Start with [Start], and end with [Node.Shutdown].
//
// It promises that connections which are not WebSockets keep no game client out: there are few
// places for them, a new one evicts the oldest, and each TLS handshake and each request has 10 s. Without
// Config.Serve.Auth it believes the names that clients give, and therefore listens on loopback
// only, unless Config.Insecure is set.
//
// One goroutine accepts connections, and net/http has one for each that is not a WebSocket.
// All have ended when Shutdown returns.
package node
