package api

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"roomd/room"
)

// route is what can be done at one path.
type route map[string]method

// method is what one HTTP method does at a path.
type method struct {
	admin bool // only who has authority over the room may
	open  bool // also without a token, where others need one
	match bool // If-Match counts
	run   func(q *request) (*answer, error)
}

var (
	descriptionRoute = route{http.MethodGet: {open: true, run: describe}}
	lobbyRoute       = route{http.MethodGet: {run: listRooms}}
	nodesRoute       = route{http.MethodGet: {admin: true, run: listNodes}}
	drainRoute       = route{http.MethodPost: {admin: true, run: drainNode}}
	roomRoute        = route{http.MethodGet: {run: readRoom}, http.MethodPut: {admin: true, match: true, run: configure}, http.MethodDelete: {admin: true, run: shut}}

	// ofRoom are the paths below a room's.
	ofRoom = map[string]route{
		"seats":    {http.MethodPost: {admin: true, run: reserve}, http.MethodDelete: {admin: true, run: release}},
		"release":  {http.MethodPost: {admin: true, run: releaseUsers}},
		"kick":     {http.MethodPost: {admin: true, run: kick}},
		"bans":     {http.MethodDelete: {admin: true, run: unban}},
		"data":     {http.MethodPut: {admin: true, match: true, run: setData}},
		"move":     {http.MethodPost: {admin: true, run: move}},
		"messages": {http.MethodPost: {admin: true, run: say}},
		"log":      {http.MethodGet: {admin: true, run: readJournal}},
	}
)

// findRoute finds what the path names. It splits the path as it was sent: a user's name may have a
// slash, which is %2F then.
func (q *request) findRoute() error {
	path := q.URL.EscapedPath()
	parts := strings.Split(strings.TrimPrefix(path, "/api/"), "/")
	for i, part := range parts {
		var err error
		if parts[i], err = url.PathUnescape(part); err != nil {
			return notFound("nothing is at %s", path)
		}
	}
	switch {
	case len(parts) == 1 && parts[0] == "openapi.yaml":
		q.route = descriptionRoute
		return nil
	case parts[0] == "nodes" && q.operator && len(parts) == 1:
		q.route = nodesRoute
		return nil
	case parts[0] == "nodes" && q.operator && len(parts) == 3 && parts[2] == "drain":
		q.route, q.node = drainRoute, parts[1]
		return nil
	case parts[0] != "rooms":
	case len(parts) == 1:
		q.route = lobbyRoute
		return nil
	case parts[1] == "":
	case len(parts) == 2:
		q.route = roomRoute
	case len(parts) == 3 && parts[2] != "bans":
		q.route = ofRoom[parts[2]]
	case len(parts) == 4 && parts[2] == "bans":
		q.route, q.user = ofRoom[parts[2]], parts[3]
	}
	if q.route == nil {
		return notFound("nothing is at %s; /api/openapi.yaml says what there is", path)
	}
	q.room = parts[1]
	return room.CheckID(q.room)
}

// method returns what the request's method does. HEAD is GET, whose body net/http leaves out.
func (r route) method(q *request) (method, error) {
	name := q.Method
	if name == http.MethodHead {
		name = http.MethodGet
	}
	if m, ok := r[name]; ok {
		return m, nil
	}
	q.header.Set("Allow", r.allow())
	return method{}, fail(codeMethod, "%s allows %s, not %.20q", q.URL.Path, r.allow(), q.Method)
}

// allow returns the methods that there are.
func (r route) allow() string {
	names := []string{http.MethodOptions}
	for name := range r {
		names = append(names, name)
		if name == http.MethodGet {
			names = append(names, http.MethodHead)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
