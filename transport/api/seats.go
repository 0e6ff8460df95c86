package api

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"roomd/room"
)

// party is a room in which users have got seats together.
type party struct {
	position
	Users []seated `json:"users"` // who asked, with their seats
}

// partyOf returns what a room is at, with the seats of these users.
func partyOf(id string, s room.Snapshot, users []string) party {
	p := party{position: at(id, s), Users: make([]seated, 0, len(users))}
	for _, o := range s.Users() {
		if slices.ContainsFunc(users, func(user string) bool { name, _ := room.ParseUser(user); return name == o.User }) {
			p.Users = append(p.Users, seatedOf(o))
		}
	}
	return p
}

// reserve is POST /api/rooms/{id}/seats: all of the users, or none.
func reserve(q *request) (*answer, error) {
	users, err := q.readUsers()
	if err != nil {
		return nil, err
	}
	if _, err := q.query(); err != nil {
		return nil, err
	}
	result, err := q.api.server.Reserve(q.Context(), q.room, users...)
	if err != nil {
		return nil, err
	}
	return &answer{status: http.StatusOK, version: etag(result.Epoch, result.Version), body: partyOf(q.room, result.Snapshot, users)}, nil
}

// release is DELETE /api/rooms/{id}/seats?user=a&user=b: all of the users leave, or none.
func release(q *request) (*answer, error) {
	values, err := q.query("user…")
	if err != nil {
		return nil, err
	}
	answer, err := q.run(room.Release(values["user"]...))
	if invalid, ok := errors.AsType[*room.InvalidError](err); ok {
		if index, ok := strings.CutPrefix(invalid.Field, "users"); ok {
			return nil, &room.InvalidError{Field: "user" + index, Problem: invalid.Problem}
		}
	}
	return answer, err
}

// releaseUsers is POST /api/rooms/{id}/release, for more users than a path has room for.
func releaseUsers(q *request) (*answer, error) {
	users, err := q.readUsers()
	if err != nil {
		return nil, err
	}
	return q.do(room.Release(users...))
}

// readUsers reads a body that is a list of users.
func (q *request) readUsers() (users []string, err error) {
	return users, q.readFields(field{name: "users", must: "a list of users", into: &users, required: true})
}

// moved is what became of the rooms of a move.
type moved struct {
	From position `json:"from"`
	To   party    `json:"to"`
}

// move is POST /api/rooms/{id}/move.
func move(q *request) (*answer, error) {
	var users []string
	var to string
	err := q.readFields(
		field{name: "users", must: "a list of users", into: &users, required: true},
		field{name: "to", must: "the id of a room", into: &to, required: true},
	)
	if err != nil {
		return nil, err
	}
	if room.CheckID(to) != nil {
		return nil, badField("to", "must be a room's id, of A-Z a-z 0-9 . _ -, not %q", excerpt(to))
	}
	if err := q.allow(to); err != nil {
		return nil, err
	}
	if _, err := q.query(); err != nil {
		return nil, err
	}
	left, joined, err := q.api.server.Move(q.Context(), q.room, to, users...)
	if err != nil {
		return nil, err
	}
	return ok(moved{From: at(q.room, left.Snapshot), To: partyOf(to, joined.Snapshot, users)})
}
