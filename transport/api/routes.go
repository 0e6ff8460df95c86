package api

import (
	"net/http"
	"reflect"
	"slices"
	"strings"
)

// operation is a method at a path. The routes and their description follow from it.
type operation struct {
	method, path string // the path as a pattern of http.ServeMux
	id           string
	summary      string
	description  string
	answer       any   // the type of a 200's body; nil for none
	refusals     []int // the statuses of problems that not all operations have

	open      bool // needs no token, even where others do
	admin     bool // needs authority over the room
	operators bool // only on the operators' address
	match     bool // If-Match has an effect

	handler
}

// handler runs an operation. Its types describe the query and the body.
type handler struct {
	query, body reflect.Type // nil for none
	run         func(q *request) (*answer, error)
}

// plain returns a handler of requests without a query and a body.
func plain(run func(q *request) (*answer, error)) handler {
	return withQuery(func(q *request, _ struct{}) (*answer, error) {
		if q.ContentLength > 0 { // only an empty object may come
			body, err := q.readBody()
			if err == nil {
				err = decode(body, new(struct{}))
			}
			if err != nil {
				return nil, err
			}
		}
		return run(q)
	})
}

// withQuery returns a handler of requests with a query T and no body.
func withQuery[T any](run func(q *request, in T) (*answer, error)) handler {
	return handler{query: reflect.TypeFor[T](), run: func(q *request) (*answer, error) {
		var in T
		if err := decodeQuery(q.URL.RawQuery, &in); err != nil {
			return nil, err
		}
		return run(q, in)
	}}
}

// withBody returns a handler of requests with a body T and no query.
func withBody[T any](run func(q *request, in T) (*answer, error)) handler {
	h := withQuery(func(q *request, _ struct{}) (*answer, error) {
		body, err := q.readBody()
		if err != nil {
			return nil, err
		}
		var in T
		if err := decode(body, &in); err != nil {
			return nil, err
		}
		return run(q, in)
	})
	h.body = reflect.TypeFor[T]()
	return h
}

// operations are all operations of the API except the description.
var operations = []operation{
	{
		method: http.MethodGet, path: "/api/rooms", id: "lobby", handler: withQuery(listRooms), answer: lobby{},
		summary: "The rooms, in the order of their ids.",
		description: "The rooms that somebody is in, and those that were configured, unless nobody can come in. " +
			"The list is half a second old at most, and has all that the node itself has answered.",
	}, {
		method: http.MethodGet, path: "/api/rooms/{room}", id: "readRoom", handler: plain(readRoom),
		answer: roomState{}, refusals: []int{404},
		summary: "A room with its members.",
	}, {
		method: http.MethodPut, path: "/api/rooms/{room}", id: "configure", admin: true, match: true,
		handler: withBody(configure), answer: position{},
		summary:     "Gives a room these settings, also one that does not exist yet.",
		description: "What is left out is zero. The members have to fit.",
	}, {
		method: http.MethodDelete, path: "/api/rooms/{room}", id: "shut", admin: true, handler: plain(shut),
		answer: position{}, refusals: []int{404},
		summary: "Closes a room.",
		description: "Everybody leaves, nobody comes in, the room leaves the lobby, and is forgotten an hour " +
			"later, unless it is given other settings.",
	}, {
		method: http.MethodPost, path: "/api/rooms/{room}/seats", id: "reserve", admin: true,
		handler: withBody(reserve), answer: party{}, refusals: []int{409},
		summary: "Seats a party, all of it or nobody.",
		description: "Each is away until a session of the user joins, and leaves when the grace is over before " +
			"that. Who is a member already keeps the seat. The same request again prolongs what is reserved.",
	}, {
		method: http.MethodDelete, path: "/api/rooms/{room}/seats", id: "release", admin: true,
		handler: withQuery(release), answer: position{}, refusals: []int{409},
		summary: "Has users leave, all of them or nobody.",
	}, {
		method: http.MethodPost, path: "/api/rooms/{room}/release", id: "releaseUsers", admin: true,
		handler: withBody(releaseUsers), answer: position{}, refusals: []int{409},
		summary: "Has users leave, all of them or nobody, also where their names are too long for a query.",
	}, {
		method: http.MethodPost, path: "/api/rooms/{room}/kick", id: "kick", admin: true, handler: withBody(kickUser),
		answer: position{}, refusals: []int{409},
		summary: "Throws a user out; with a ban also one who is not there.",
	}, {
		method: http.MethodDelete, path: "/api/rooms/{room}/bans/{user}", id: "unban", admin: true,
		handler: plain(unban), answer: position{}, refusals: []int{404},
		summary: "Lets a user come in again. It is no error for one who may.",
	}, {
		method: http.MethodPut, path: "/api/rooms/{room}/data", id: "setData", admin: true, match: true,
		handler: withBody(setData), answer: position{},
		summary:     "Replaces the room's data; null removes them.",
		description: "If-Match is met if the data have not changed since that version.",
	}, {
		method: http.MethodPut, path: "/api/rooms/{room}/timers/{timer}", id: "setTimer", admin: true, match: true,
		handler: withBody(setTimer), answer: position{}, refusals: []int{404},
		summary: "Sets one of the room's timers, in the place of one of that name.",
		description: "A room has at most 8. If-Match is met if neither the data nor a timer has changed since " +
			"that version.",
	}, {
		method: http.MethodDelete, path: "/api/rooms/{room}/timers/{timer}", id: "stopTimer", admin: true,
		handler: plain(stopTimer), answer: position{}, refusals: []int{404},
		summary: "Cancels one of the room's timers. It is no error if there is none of that name.",
	}, {
		method: http.MethodPut, path: "/api/rooms/{room}/members/{user}/private", id: "setPrivate", admin: true,
		match: true, handler: withBody(setPrivate), answer: position{}, refusals: []int{409},
		summary: "Replaces the private data of a member, which only the member and admins are shown; null " +
			"removes them.",
		description: "They are gone when the member leaves, also by a move. If-Match is met if they have not " +
			"changed since that version.",
	}, {
		method: http.MethodPost, path: "/api/rooms/{room}/deal", id: "deal", admin: true, match: true,
		handler: withBody(dealHands), answer: position{}, refusals: []int{409},
		summary:     "Gives members private data, all of them or nobody, in one commit.",
		description: "If-Match is met if none of these have changed since that version.",
	}, {
		method: http.MethodPost, path: "/api/rooms/{room}/move", id: "move", admin: true, handler: withBody(moveUsers),
		answer: moved{}, refusals: []int{409},
		summary:     "Takes members to another room, all of them or nobody.",
		description: "The token has to allow both rooms. The sessions of the users go along.",
	}, {
		method: http.MethodPost, path: "/api/rooms/{room}/swap", id: "swap", admin: true, handler: withBody(swapUsers),
		answer: position{}, refusals: []int{409},
		summary: "Has two members exchange their seats.", description: "A rule of the game about seats is not asked.",
	}, {
		method: http.MethodPost, path: "/api/rooms/{room}/shuffle", id: "shuffle", admin: true, handler: plain(shuffle),
		answer: position{}, refusals: []int{404},
		summary:     "Gives each member the seat of another one, at random.",
		description: "A rule of the game about seats is not asked.",
	}, {
		method: http.MethodPost, path: "/api/rooms/{room}/messages", id: "say", admin: true, handler: withBody(say),
		answer: position{}, refusals: []int{404, 409},
		summary: "Says something to the members.", description: "It counts as a version, and is not kept.",
	}, {
		method: http.MethodGet, path: "/api/rooms/{room}/log", id: "journal", admin: true,
		handler: withQuery(readJournal), answer: journal{},
		summary:     "The last commits of a room, oldest first.",
		description: "As far as its journal has them, which nodes with `--journal` write.",
	}, {
		method: http.MethodGet, path: "/api/feed", id: "feed", admin: true, handler: withQuery(readFeed),
		answer: feedPage{}, refusals: []int{404},
		summary: "Every commit of every room, in the order of each room, at least once.",
		description: "Of the rooms that the token allows. A commit may come again, with the same room, epoch and " +
			"version. Where commits were dropped before they were read, a gap says which are missing, and has the " +
			"room as it is now. Nodes with `--journal` and `--feed` write the feed; 404 says that this one does " +
			"not.",
	}, {
		method: http.MethodPost, path: "/api/match", id: "match", admin: true, handler: withBody(match),
		answer:      party{},
		summary:     "Seats a party together in a room with some labels: the fullest that has the seats, or a new one.",
		description: "All of it or nobody, as by a request to the room's seats.",
	}, {
		method: http.MethodGet, path: "/api/nodes", id: "nodes", admin: true, operators: true,
		handler: plain(listNodes), answer: nodeList{}, refusals: []int{404},
		summary: "The nodes that are believed to live, by name, with what each says of itself.",
		description: "A node writes that to Redis about once a second. One that has been silent for 10 s has only " +
			"what its lease says. 404 says that this is the address of the game clients.",
	}, {
		method: http.MethodPost, path: "/api/nodes/{node}/drain", id: "drain", admin: true, operators: true,
		handler: plain(drainNode), refusals: []int{404},
		summary:     "Asks a node to stop, as SIGTERM would.",
		description: "It notices within about 2 s. What starts in its place has another name, and is not asked.",
	},
}

type methods map[string]*operation

// mux returns the handler for the operators' address or, if operators is false, for the game clients'.
func (a *API) mux(operators bool) http.Handler {
	mux, paths, running := http.NewServeMux(), map[string]methods{"/": nil}, newGate(maxRunning, maxOfOne)
	all := append([]operation{description}, operations...)
	for i := range all {
		op := &all[i]
		if op.operators && !operators {
			continue
		}
		if paths[op.path] == nil {
			paths[op.path] = make(methods)
		}
		paths[op.path][op.method] = op
	}
	for path, ops := range paths {
		mux.Handle(path, a.serve(ops, operators, running))
	}
	nothing := a.serve(nil, operators, running)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if path := r.URL.EscapedPath(); strings.Contains(path+"/", "//") || strings.Contains(path+"/", "/./") ||
			strings.Contains(path+"/", "/../") {
			nothing.ServeHTTP(w, r) // the mux would redirect the caller
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// find returns the operation of the request's method. HEAD is GET, whose body net/http leaves out.
func (m methods) find(q *request) (*operation, error) {
	if m == nil {
		return nil, notFound("nothing is at %s; /api/openapi.yaml says what there is", q.URL.EscapedPath())
	}
	name := q.Method
	if name == http.MethodHead {
		name = http.MethodGet
	}
	if op := m[name]; op != nil {
		return op, nil
	}
	q.header.Set("Allow", m.allow())
	return nil, fail(codeMethod, "%s allows %s, not %.20q", q.URL.Path, m.allow(), q.Method)
}

func (m methods) allow() string {
	names := []string{http.MethodOptions}
	for name := range m {
		names = append(names, name)
		if name == http.MethodGet {
			names = append(names, http.MethodHead)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
