package auth

import (
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"roomd/room"
)

// MaxToken is the length of the longest token that is read, in bytes.
const MaxToken = 8 << 10

// Role says what a user may do besides playing.
type Role string

// The roles. A token that names another one is refused.
const (
	RolePlayer Role = "player" // plays; the role of a token that names none
	RoleAdmin  Role = "admin"  // also changes rooms
)

// Identity is what a token says. The zero value is nobody in particular: whom no token limits, and who is no admin.
type Identity struct {
	// User is the token's sub, in the form that room.ParseUser returns.
	User string
	// Rooms are patterns as in path.Match, such as "table-*". The user may enter the rooms whose
	// ids match one of them. Nil means all rooms; an empty list means none.
	Rooms []string
	// Watch are patterns of the rooms that the user may watch without being a member. Nil means those of Rooms.
	Watch []string
	// Role is what the user may do besides playing.
	Role Role
	// Expires is when the token ends to be valid.
	Expires time.Time
}

// Use is what somebody wants with a room.
type Use int

const (
	Enter Use = iota // to come in, and to act there; for an admin, to change the room
	Watch            // to see the room and its members
)

// May returns nil if the token allows its user to do that with the room of that id, and otherwise an error that is
// room.ErrForbidden. A member may also watch a room that the token lets it enter. Admins are bound by their tokens
// like everybody. Settings and bans of the room do not count here: see [Identity.MayWatch].
func (i *Identity) May(use Use, id string, member bool) error {
	matches := func(pattern string) bool { matched, err := path.Match(pattern, id); return matched && err == nil }
	allow := func(patterns []string) bool { return patterns == nil || slices.ContainsFunc(patterns, matches) }
	watch := use == Watch && i.Watch != nil
	if watch && allow(i.Watch) || (!watch || member) && allow(i.Rooms) {
		return nil
	}
	return room.Forbid("the token does not allow room %s", id)
}

// Only returns what reports whether the user may enter a room, and nil if the user may enter all.
func (i *Identity) Only() func(id string) bool {
	if i.Rooms == nil {
		return nil
	}
	return func(id string) bool { return i.May(Enter, id, false) == nil }
}

// Prefix returns with what the id of a new room has to begin, and then may have any so many characters: the first
// of Rooms that allows that. It is empty if none does, and otherwise if all rooms are allowed.
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

// MayWatch returns nil if user may watch the room of that id, which is as the snapshot has it: the token
// allows it, to a member or to others; and the room's settings and bans allow it, or the token is an
// admin's. The time is in ms since 1970. The error is room.ErrForbidden or room.ErrBanned.
func (i *Identity) MayWatch(now room.Snapshot, id, user string, at int64) error {
	member := user != "" && slices.ContainsFunc(now.Users(), func(o room.Occupant) bool { return o.User == user })
	if err := i.May(Watch, id, member); err != nil || i.Role == RoleAdmin {
		return err
	}
	return now.MayWatch(id, user, at)
}

// Viewer returns as whom user is shown the room of that id. An admin has authority over those that the token lets it
// enter.
func (i *Identity) Viewer(user, id string) room.Viewer {
	return room.Viewer{User: user, Authority: i.Role == RoleAdmin && i.May(Enter, id, false) == nil}
}

// validPattern reports whether a pattern can be matched with a room's id.
func validPattern(pattern string) bool {
	_, err := path.Match(pattern, "")
	return err == nil && pattern != ""
}

// Bearers returns the tokens in the Authorization headers of a request (RFC 6750). Credentials of other
// kinds are for whatever stands before this server.
func Bearers(h http.Header) (tokens []string) {
	for _, credentials := range h["Authorization"] {
		if scheme, token, _ := strings.Cut(credentials, " "); strings.EqualFold(scheme, "Bearer") {
			tokens = append(tokens, strings.TrimSpace(token))
		}
	}
	return tokens
}
