package api

import "roomd/room"

// setData is PUT /api/rooms/{id}/data: the body is the data, and null removes them.
func setData(q *request) (*answer, error) {
	expected, err := q.ifMatch()
	if err != nil {
		return nil, err
	}
	value, err := q.readValue()
	if err != nil {
		return nil, err
	}
	action := room.SetData(string(value))
	if expected != nil {
		action = action.Unchanged(expected.epoch, expected.version)
	}
	return q.do(action)
}
