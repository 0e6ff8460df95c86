// Package crew runs what a measurement must not have in its own process: the server whose memory
// or latency it measures, the clients, and those who attack it.
//
// A child is this program again. So its main function, and TestMain, call [Main] first. The parent
// calls a child by net/rpc over its standard input and output, and a child ends when its standard
// input does: it cannot outlive its parent.
//
//   - [Server] is a node with roomd's defaults, or a bare gorilla/websocket echo server.
//   - [Swarm] is many ordinary clients.
//   - [Attack] is clients that behave badly.
package crew
