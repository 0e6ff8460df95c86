package api

import (
	"cmp"

	"roomd/room"
)

// settings are those of a room.
type settings struct {
	Capacity int  `json:"capacity"` // 0 is as many as there can be
	Closed   bool `json:"closed"`
	Keep     bool `json:"keep"`

	Data string `json:"data"` // who may set the room's data
}

// dataMembers says that every member may set the room's data, which is the zero room.DataPolicy.
const dataMembers = "members"

func settingsOf(s room.Settings) settings {
	return settings{s.Capacity, s.Closed, s.Keep, cmp.Or(string(s.Data), dataMembers)}
}

// configure is PUT /api/rooms/{id}: what the body leaves out is zero.
func configure(q *request) (*answer, error) {
	expected, err := q.ifMatch()
	if err != nil {
		return nil, err
	}
	var s room.Settings
	var data string
	err = q.readFields(
		field{name: "capacity", must: "a whole number", into: &s.Capacity},
		field{name: "closed", must: "true or false", into: &s.Closed},
		field{name: "keep", must: "true or false", into: &s.Keep},
		field{name: "data", must: "members or admins", into: &data, given: func() error {
			if data == "" {
				return badField("data", "must be members or admins")
			}
			return nil
		}},
	)
	if err != nil {
		return nil, err
	}
	if data != dataMembers {
		s.Data = room.DataPolicy(data) // its own rules check it
	}
	action := room.Configure(s)
	if expected != nil {
		action = action.IfVersion(expected.epoch, expected.version)
	}
	return q.do(action)
}
