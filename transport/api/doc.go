// Package api is roomd's HTTP API: the lobby for everybody, and authority over rooms for admins.
//
// Start with [New]. [API.Public] is for the game clients' address, where a token grants rights; [API.Operators] for
// an address that only operators reach. The routes, and the description at /api/openapi.yaml, come from one table.
//
// # What it promises
//
//   - Without a key for tokens nobody has authority by API.Public. With one, a caller needs a valid token for
//     everything but the description, and sees only rooms that the token allows.
//   - A body with an unknown field, a repeated field, or anything behind it is refused, and changes nothing; likewise
//     an unknown query parameter.
//   - An error is a problem document (RFC 9457), with the code of the WebSocket protocol where there is one. It means
//     that nothing was written, except with the code unknown.
//   - The number of requests that run at once is limited, in all and per address. Further ones are refused at once.
//
// # Goroutines
//
// The package starts none.
package api
