// Package loadtest sends players at roomd nodes and proves that the rooms' lists
// are right.
//
// Start with [Run]: it lets players join and leave rooms at random over real
// WebSockets, against nodes that it starts itself or that are given to it, while
// package history checks all that they are told. At the end it holds the history
// against what Redis and every node say, and against what every player knows.
//
// The checkers are in loadtest/history, and import nothing of the server.
package loadtest
