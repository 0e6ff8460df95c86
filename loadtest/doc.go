// Package loadtest sends players at roomd nodes and proves that the rooms' lists are
// right.
//
// Start with [Run]. It lets players join and leave rooms at random over real WebSockets,
// at its own nodes or at those given to it. Package history checks every reply and event
// meanwhile. At the end Run compares that history with Redis, with every node's answer,
// and with what every player knows.
//
// The checkers are in loadtest/history, and import nothing of the server.
package loadtest
