// Package api is roomd's HTTP API: the lobby for everybody, and authority over rooms for admins.
//
// Start with [New]. [API.Public] is for the address of the game clients, where a token says what a
// caller may do. [API.Operators] is for an address that only operators reach.
//
// Each request is an operation of a table, from which the routes of an http.ServeMux and the
// description at /api/openapi.yaml are made.
//
// # What it promises
//
//   - Without a key for tokens nobody has authority by API.Public. With one, a caller needs a valid
//     token for everything but the description, and sees only rooms that it allows.
//   - A body with an unknown field, a field twice, or anything behind it is refused, and nothing is
//     done. So is an unknown query parameter.
//   - An error is a problem document (RFC 9457). Its code is that of the WebSocket protocol where
//     there is one. An error says that nothing was written, except with the code unknown.
//   - However many requests come, so many run at once, and so many of one address. The others are
//     refused at once.
//
// # Goroutines
//
// The package starts none.
package api
