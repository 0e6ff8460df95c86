package auth

import (
	"path"
	"time"
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

// Identity is what a token says. The zero value is nobody.
type Identity struct {
	// User is the token's sub, in the form that room.ParseUser returns.
	User string
	// Rooms are patterns as in path.Match, such as "table-*". The user may enter the rooms whose
	// ids match one of them. Nil means all rooms; an empty list means none.
	Rooms []string
	// Role is what the user may do besides playing.
	Role Role
	// Expires is when the token ends to be valid.
	Expires time.Time
}

// Allows reports whether the user may enter the room with that id.
func (i *Identity) Allows(room string) bool {
	if i.Rooms == nil {
		return true
	}
	for _, pattern := range i.Rooms {
		if matches, err := path.Match(pattern, room); matches && err == nil {
			return true
		}
	}
	return false
}

// validPattern reports whether a pattern can be matched with a room's id.
func validPattern(pattern string) bool {
	_, err := path.Match(pattern, "")
	return err == nil && pattern != ""
}
