package api

import (
	"github.com/go-json-experiment/json/jsontext"

	"roomd/room"
)

// say is POST /api/rooms/{id}/messages.
func say(q *request) (*answer, error) {
	var said room.Message
	var data jsontext.Value
	err := q.readFields(
		field{name: "text", must: "a string", into: &said.Text},
		field{name: "data", must: "JSON", into: &data},
		field{name: "to", must: "a list of users", into: &said.To},
	)
	if err != nil {
		return nil, err
	}
	if _, err := q.read(); err != nil { // nobody would hear it
		return nil, err
	}
	said.Data = string(data)
	return q.do(room.Say(said))
}
