package api

import (
	"errors"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"roomd/room"
)

// seated is a member.
type seated struct {
	User string `json:"user"`
	Seat int    `json:"seat"`
	Away bool   `json:"away,omitzero"`

	Ready bool           `json:"ready,omitzero"`
	Data  jsontext.Value `json:"data,omitzero"`
}

func seatedOf(o room.Occupant) seated {
	return seated{o.User, o.Seat, o.Away, o.Ready, jsonOf(o.Data)}
}

// jsonOf returns JSON as it is, nil for none.
func jsonOf(text string) jsontext.Value {
	if text == "" {
		return nil
	}
	return jsontext.Value(text)
}

// position says what a room is at after a request.
type position struct {
	Room    string `json:"room"`
	Epoch   string `json:"epoch"`
	Version uint64 `json:"version"`
	Count   int    `json:"count"`
}

func at(id string, s room.Snapshot) position { return position{id, s.Epoch, s.Version, s.Count()} }

// whole is a room.
type whole struct {
	position
	Settings settings       `json:"settings"`
	Data     jsontext.Value `json:"data,omitzero"`
	Users    []seated       `json:"users"`
}

// read returns the room of the path, which must exist.
func (q *request) read() (room.Snapshot, error) {
	s, err := q.api.server.Read(q.Context(), q.room)
	if err == nil && s.Epoch == "" {
		err = q.noRoom()
	}
	return s, err
}

func (q *request) noRoom() error {
	return notFound("nobody has joined room %s, or it was empty for so long that it is forgotten", q.room)
}

// readRoom is GET /api/rooms/{id}.
func readRoom(q *request) (*answer, error) {
	if _, err := q.query(); err != nil {
		return nil, err
	}
	s, err := q.read()
	if err != nil {
		return nil, err
	}
	version := etag(s.Epoch, s.Version)
	if q.ifNoneMatch(s) {
		return &answer{status: http.StatusNotModified, version: version}, nil
	}
	body := whole{position: at(q.room, s), Settings: settingsOf(s.Settings), Data: jsonOf(s.Data), Users: make([]seated, 0, s.Count())}
	for _, u := range s.Users() {
		body.Users = append(body.Users, seatedOf(u))
	}
	return &answer{status: http.StatusOK, version: version, body: body}, nil
}

// do runs an action on the room of the path, for a request without a query.
func (q *request) do(a room.Action) (*answer, error) {
	if _, err := q.query(); err != nil {
		return nil, err
	}
	return q.run(a)
}

// run runs an action on the room of the path, and answers with what the room is at then.
func (q *request) run(a room.Action) (*answer, error) {
	result, err := q.api.rooms.Do(q.Context(), q.room, a)
	if errors.Is(err, room.ErrConflict) {
		err = &conflictError{err, result.Snapshot}
	}
	if err == nil && result.Epoch == "" { // there was nothing to change
		err = q.noRoom()
	}
	if err != nil {
		return nil, err
	}
	return &answer{status: http.StatusOK, version: etag(result.Epoch, result.Version), body: at(q.room, result.Snapshot)}, nil
}
