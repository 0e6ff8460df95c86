// Package auth verifies the JSON Web Tokens (RFC 7519) of game clients, and makes tokens for tests and small setups.
//
// Start with a [KeySource], make a [Verifier] of it with [New], and call [Verifier.Verify]. A [Signer] makes tokens.
//
// The package promises:
//
//   - The key decides the algorithm, never the token: HS256 for a secret, RS256, ES256 or EdDSA for a public key. No
//     key comes from a token.
//   - It refuses a token without exp, and one whose claims two JSON readers could understand differently: a name is
//     there twice, or in other letter case. Clocks get no leeway.
//   - No error and no log line contains a token or a part of one.
//   - A changed key file is read again within a second, a key set from a URL within minutes, and at once for a token
//     that names a new key. While the new content is unusable, the old keys stay valid.
//
// It does not promise that a token is used once, or that it can be revoked before it expires; to revoke all tokens of
// a key, replace the key.
//
// The package runs no goroutines. All of it is safe for concurrent use.
package auth

import (
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"roomd/room"
)

// MaxToken is the length of the longest accepted token, in bytes.
const MaxToken = 8 << 10

// Role is a user's role.
type Role string

// The roles. A token with another one is refused.
const (
	RolePlayer Role = "player" // plays; also the role of a token without one
	RoleAdmin  Role = "admin"  // also changes rooms
)

// Identity is the content of a token. The zero value has no user and no limits, and is no admin.
type Identity struct {
	// User is the token's sub, in the form that room.ParseUser returns.
	User string
	// Rooms are patterns as in path.Match, such as "table-*", for the ids of rooms that the user may enter. Nil means
	// all rooms, an empty list none.
	Rooms []string
	// Watch are patterns for rooms that the user may watch without being a member. Nil means those of Rooms.
	Watch []string
	Role  Role
	// Expires is the end of the token's validity.
	Expires time.Time
}

// Use is a way of using a room.
type Use int

const (
	Enter Use = iota // join and act; for an admin, change the room
	Watch            // see the room and its members
)

// May returns nil if the token allows the use of room id, otherwise an error that is room.ErrForbidden. A user who is
// in the room (member) may also watch it if Rooms allows that. An admin's token is checked like any other. May ignores
// the room's settings and bans: see [Identity.MayWatch].
func (i *Identity) May(use Use, id string, member bool) error {
	matches := func(pattern string) bool { matched, err := path.Match(pattern, id); return matched && err == nil }
	allow := func(patterns []string) bool { return patterns == nil || slices.ContainsFunc(patterns, matches) }
	watch := use == Watch && i.Watch != nil
	if watch && allow(i.Watch) || (!watch || member) && allow(i.Rooms) {
		return nil
	}
	return room.Forbid("the token does not allow room %s", id)
}

// Only returns a function that reports whether the user may enter a room, or nil if all are allowed.
func (i *Identity) Only() func(id string) bool {
	if i.Rooms == nil {
		return nil
	}
	return func(id string) bool { return i.May(Enter, id, false) == nil }
}

// Prefix returns a prefix for the id of a new room; more is the number of characters that follow it. If Rooms is nil,
// it returns the argument otherwise, else the prefix of the first fitting pattern like "table-*", or "".
func (i *Identity) Prefix(otherwise string, more int) string {
	if i.Rooms == nil {
		return otherwise
	}
	for _, pattern := range i.Rooms {
		if prefix, ok := strings.CutSuffix(pattern, "*"); ok && room.CheckID(prefix+strings.Repeat("x", more)) == nil {
			return prefix
		}
	}
	return ""
}

// MayWatch returns nil if user may watch room id, whose snapshot is now. The token must allow it and, unless its role
// is admin, the room's settings and bans as well. at is the time in ms since 1970. The error is room.ErrForbidden or
// room.ErrBanned.
func (i *Identity) MayWatch(now room.Snapshot, id, user string, at int64) error {
	member := user != "" && slices.ContainsFunc(now.Users(), func(o room.Occupant) bool { return o.User == user })
	if err := i.May(Watch, id, member); err != nil || i.Role == RoleAdmin {
		return err
	}
	return now.MayWatch(id, user, at)
}

// Viewer returns user as a viewer of room id. An admin has authority in rooms that the token allows to enter.
func (i *Identity) Viewer(user, id string) room.Viewer {
	return room.Viewer{User: user, Authority: i.Role == RoleAdmin && i.May(Enter, id, false) == nil}
}

func validPattern(pattern string) bool {
	_, err := path.Match(pattern, "")
	return err == nil && pattern != ""
}

// Bearers returns the tokens in the Authorization headers of a request (RFC 6750). It ignores other credentials: they
// are for a proxy in front of this server.
func Bearers(h http.Header) (tokens []string) {
	for _, credentials := range h["Authorization"] {
		if scheme, token, _ := strings.Cut(credentials, " "); strings.EqualFold(scheme, "Bearer") {
			tokens = append(tokens, strings.TrimSpace(token))
		}
	}
	return tokens
}
