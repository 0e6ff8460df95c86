package api

import (
	"time"

	"roomd/room"
)

// maxBan is how long a ban lasts at most, in seconds: ten years.
const maxBan = 315_360_000

// shut is DELETE /api/rooms/{id}: everybody leaves, and nobody comes in.
func shut(q *request) (*answer, error) {
	if _, err := q.read(); err != nil {
		return nil, err
	}
	return q.do(room.Shut())
}

// kick is POST /api/rooms/{id}/kick.
func kick(q *request) (*answer, error) {
	var user, text string
	var ban int
	err := q.readFields(
		field{name: "user", must: "a user's name", into: &user, required: true},
		field{name: "text", must: "a string", into: &text},
		field{name: "ban", must: "a whole number of seconds", into: &ban, given: func() error {
			if ban < 1 || ban > maxBan {
				return badField("ban", "must be from 1 to %d seconds, not %d", maxBan, ban)
			}
			return nil
		}},
	)
	if err != nil {
		return nil, err
	}
	action := room.Kick(user).Saying(text)
	if ban > 0 {
		action = action.Ban(time.Now().Add(time.Duration(ban) * time.Second).UnixMilli())
	}
	return q.do(action)
}

// unban is DELETE /api/rooms/{id}/bans/{user}.
func unban(q *request) (*answer, error) { return q.do(room.Unban(q.user)) }
