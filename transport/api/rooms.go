package api

import (
	"errors"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"roomd/room"
	"roomd/room/coordinator"
	"roomd/transport/auth"
	"roomd/transport/protocol"
)

// position is a room's version after a request.
type position struct {
	Room    string `json:"room" pattern:"^[A-Za-z0-9._-]{1,64}$"`
	Epoch   string `json:"epoch" minLength:"1" doc:"One life of a room. Versions of two epochs cannot be compared."`
	Version uint64 `json:"version" minimum:"1" doc:"Counts a room's commits, from 1, without gaps."`
	Count   int    `json:"count" minimum:"0" doc:"How many members there are."`
}

func at(id string, s room.Snapshot) position { return position{id, s.Epoch, s.Version, s.Count()} }

// etag returns the version as an ETag (RFC 9110, section 8.8.3).
func (p position) etag() string { return `"` + p.Epoch + "." + strconv.FormatUint(p.Version, 10) + `"` }

type member struct {
	User string `json:"user" minLength:"1" maxLength:"64"`
	Seat int    `json:"seat" minimum:"0" maximum:"65535"`
	Away bool   `json:"away,omitzero" enum:"true" doc:"The user's connection is lost; the seat is kept for a while."`

	Ready bool    `json:"ready,omitzero" enum:"true" doc:"The user has said so."`
	Data  rawJSON `json:"data,omitzero" doc:"What the user has set; absent if that is nothing."`

	Private rawJSON `json:"private,omitzero" doc:"What only the user and admins are shown; absent for others, and if there is nothing."`
}

func memberOf(o room.Occupant) member {
	return member{User: o.User, Seat: o.Seat, Away: o.Away, Ready: o.Ready, Data: jsonOf(o.Data)}
}

// jsonOf returns JSON unchanged, nil for none.
func jsonOf(text string) rawJSON {
	if text == "" {
		return nil
	}
	return jsontext.Value(text)
}

type roomState struct {
	position
	Settings settings `json:"settings"`
	Data     rawJSON  `json:"data,omitzero" doc:"The room's data; absent if there are none."`
	Timers   timers   `json:"timers,omitzero" doc:"By name, in how many ms each timer fires; absent if there are none."`
	Host     string   `json:"host,omitzero" minLength:"1" maxLength:"64" doc:"The member who is the host; absent if nobody is."`
	Users    []member `json:"users"`
}

// timers are the times that a room's timers have left, in ms, by name.
type timers map[string]int64

// read returns the path's room, which must exist and pass check.
func (q *request) read(check func(room.Snapshot) error) (room.Snapshot, error) {
	s, err := q.api.server.Read(q.Context(), q.room)
	if err == nil {
		err = check(s)
	}
	if err == nil && s.Epoch == "" {
		err = q.noRoom()
	}
	return s, err
}

func (q *request) noRoom() error {
	return notFound("nobody has joined room %s, or it was empty for so long that it is forgotten", q.room)
}

func readRoom(q *request) (*answer, error) {
	s, err := q.read(func(s room.Snapshot) error {
		return q.token.MayWatch(s, q.room, q.token.User, q.api.rooms.Now())
	})
	if err != nil {
		return nil, err
	}
	if version := at(q.room, s).etag(); q.ifNoneMatch(version) {
		return &answer{status: http.StatusNotModified, version: version}, nil
	}
	return ok(stateOf(q.room, s, q.token.Viewer(q.token.User, q.room), q.api.rooms.Now()))
}

// stateOf returns a room as viewer sees it. now is the nodes' common time, in ms since 1970.
func stateOf(id string, s room.Snapshot, viewer room.Viewer, now int64) roomState {
	body := roomState{position: at(id, s), Settings: settings(s.Settings.Named()), Data: jsonOf(s.Data), Host: s.Host(),
		Users: make([]member, 0, s.Count())}
	body.Timers = timers(protocol.TimersOf(s.Timers(), now))
	private := s.Private(viewer)
	for _, u := range s.Users() {
		m := memberOf(u)
		m.Private = jsonOf(private[u.User])
		body.Users = append(body.Users, m)
	}
	return body
}

// do runs an action in the path's room, and answers with the room's new version.
func (q *request) do(a room.Action) (*answer, error) {
	result, err := q.api.rooms.Do(q.Context(), q.room, a)
	switch {
	case errors.Is(err, room.ErrConflict):
		err = &conflictError{err, result.Snapshot, dataOf(a, result.Snapshot)}
	case errors.Is(err, room.ErrNoRoom):
		err = q.noRoom()
	}
	if err == nil && result.Epoch == "" { // the room does not exist
		err = q.noRoom()
	}
	if err != nil {
		return nil, err
	}
	return ok(at(q.room, result.Snapshot))
}

// doIfExists is do, but fails if the room does not exist.
func (q *request) doIfExists(a room.Action) (*answer, error) {
	if _, err := q.read(func(room.Snapshot) error { return nil }); err != nil {
		return nil, err
	}
	return q.do(a)
}

// dataOf returns the room's current data; for a Deal, the private data that its hand would have replaced, or "" if it
// has several hands.
func dataOf(a room.Action, now room.Snapshot) string {
	deal, is := a.(room.Deal)
	switch {
	case !is:
		return now.Data
	case len(deal.Hands) > 1:
		return ""
	}
	user, _ := room.ParseUser(deal.Hands[0].User) // valid: the action was checked
	return now.Private(room.Viewer{Authority: true})[user]
}

// settings are room.Settings with all fields shown that have a default. [room.SettingFields] has their description and
// limits.
type settings struct {
	Capacity int         `json:"capacity" required:"false"`
	Closed   bool        `json:"closed" required:"false"`
	Keep     bool        `json:"keep" required:"false"`
	Data     room.Choice `json:"data" required:"false"`
	Watch    room.Choice `json:"watch" required:"false"`
	Labels   room.Labels `json:"labels" required:"false"`
	Host     room.Choice `json:"host" required:"false"`
	History  int         `json:"history" required:"false"`
	Grace    room.Grace  `json:"grace,omitzero"`
	Default  bool        `json:"-"`
}

func configure(q *request, in settings) (*answer, error) {
	return q.do(room.Configure{Settings: room.Settings(in), Expect: q.expect})
}

func shut(q *request) (*answer, error) {
	return q.doIfExists(room.Close{})
}

type kick struct {
	User string `json:"user" minLength:"1" maxLength:"64"`
	Text string `json:"text,omitzero" doc:"Why; at most 200 bytes. The others are told."`
	Ban  int    `json:"ban,omitzero" minimum:"1" maximum:"315360000" doc:"For how many seconds the user cannot come in. A ban that ends later stays."`
}

func kickUser(q *request, in kick) (*answer, error) {
	action := room.Kick{User: in.User, Text: in.Text}
	if in.Ban > 0 {
		action.Until = q.api.rooms.Now() + int64(in.Ban)*1000
	}
	return q.do(action)
}

func unban(q *request) (*answer, error) { return q.do(room.Unban{User: q.PathValue("user")}) }

func swapUsers(q *request, in users) (*answer, error) { return q.do(room.Swap{Users: in.Users}) }

func shuffle(q *request) (*answer, error) {
	return q.doIfExists(room.Shuffle{Seed: rand.Uint64()})
}

// setData replaces the room's data by the body; null removes them.
func setData(q *request, data rawJSON) (*answer, error) {
	return q.do(room.SetData{Data: string(data), Expect: q.expect})
}

// setPrivate replaces a member's private data by the body; null removes them.
func setPrivate(q *request, data rawJSON) (*answer, error) {
	return q.deal(room.Hand{User: q.PathValue("user"), Data: string(data)})
}

type deal struct {
	Hands map[string]rawJSON `json:"hands" minProperties:"1" maxProperties:"64" doc:"By user: the member's private data from now on. Null removes them."`
}

func dealHands(q *request, in deal) (*answer, error) {
	var hands []room.Hand
	for _, user := range slices.Sorted(maps.Keys(in.Hands)) {
		hands = append(hands, room.Hand{User: user, Data: string(in.Hands[user])})
	}
	answer, err := q.deal(hands...)
	if invalid, ok := errors.AsType[*room.InvalidError](err); ok && len(hands) == 1 && invalid.Field == "data" {
		return nil, badField("hands."+hands[0].User, "%s", invalid.Problem)
	}
	return answer, err
}

func (q *request) deal(hands ...room.Hand) (*answer, error) {
	return q.do(room.Deal{Hands: hands, Expect: q.expect})
}

type timer struct {
	In   int    `json:"in" minimum:"0" maximum:"7776000000" doc:"In how many ms it fires."`
	Then effect `json:"then,omitzero" doc:"What it does besides: one of these things, or nothing."`
}

type effect struct {
	Close bool    `json:"close,omitzero" enum:"true" doc:"It closes the room."`
	Kick  string  `json:"kick,omitzero" minLength:"1" maxLength:"64" doc:"It throws that user out, if the user is there."`
	Data  rawJSON `json:"data,omitzero" doc:"The room gets this data, unless the data has changed since the timer was set. Null removes them."`
}

func setTimer(q *request, in timer) (*answer, error) {
	then := room.Effect{Close: in.Then.Close, Kick: in.Then.Kick, Data: in.Then.Data}
	return q.do(room.SetTimer{Name: q.PathValue("timer"), In: int64(in.In), Then: then, Expect: q.expect})
}

func stopTimer(q *request) (*answer, error) {
	return q.do(room.SetTimer{Name: q.PathValue("timer"), Stop: true})
}

type message struct {
	Text string   `json:"text,omitzero" minLength:"1"`
	Data rawJSON  `json:"data,omitzero" doc:"Any JSON, but with no number that a double (IEEE 754) cannot hold, such as 1e999 or 9007199254740993."`
	To   []string `json:"to,omitzero" maxItems:"64" uniqueItems:"true" doc:"Whom it is for; everybody without it, and the admins who watch if it is empty."`
}

func say(q *request, in message) (*answer, error) {
	return q.doIfExists(room.Say{Text: in.Text, Data: string(in.Data), To: in.To})
}

type users struct {
	Users []string `json:"users" minItems:"1" maxItems:"64" uniqueItems:"true"`
}

// party is a room with users seated together.
type party struct {
	position
	Users []member `json:"users" doc:"Those that were asked for, with their seats."`
}

// partyOf returns a room's version, with the seats of these users.
func partyOf(id string, s room.Snapshot, users []string) party {
	p := party{position: at(id, s), Users: make([]member, 0, len(users))}
	for _, o := range s.Users() {
		if slices.ContainsFunc(users, func(user string) bool {
			name, _ := room.ParseUser(user)
			return name == o.User
		}) {
			p.Users = append(p.Users, memberOf(o))
		}
	}
	return p
}

func reserve(q *request, in users) (*answer, error) {
	result, err := q.api.server.Reserve(q.Context(), q.room, in.Users...)
	if err != nil {
		return nil, err
	}
	return ok(partyOf(q.room, result.Snapshot, in.Users))
}

type wanted struct {
	Users    []string    `json:"users" minItems:"1" maxItems:"64" uniqueItems:"true" doc:"Who are to sit together."`
	Labels   room.Labels `json:"labels" doc:"That the room has, perhaps among others."`
	Settings settings    `json:"settings,omitzero" doc:"Of the room that begins if there is none."`
	Key      string      `json:"key,omitzero" maxLength:"64" doc:"Names the request: with the same one it finds the same room for a minute."`
}

func match(q *request, in wanted) (*answer, error) {
	w := coordinator.Wanted{Labels: in.Labels, Prefix: q.token.Prefix("", coordinator.NewIDLength), By: "api",
		Key: in.Key, Allow: q.token.Only(), Settings: room.Settings(in.Settings)}
	id, result, err := q.api.server.Match(q.Context(), w, in.Users...)
	if err != nil {
		return nil, err
	}
	return ok(partyOf(id, result.Snapshot, in.Users))
}

type released struct {
	User []string `query:"user" required:"true" minItems:"1" maxItems:"64" uniqueItems:"true" doc:"Once for each user. About 20 KiB are all there is for the headers of a request; POST …/release takes more."`
}

func release(q *request, in released) (*answer, error) {
	answer, err := q.do(room.Release{Users: in.User})
	if invalid, ok := errors.AsType[*room.InvalidError](err); ok {
		if index, ok := strings.CutPrefix(invalid.Field, "users"); ok {
			return nil, &room.InvalidError{Field: "user" + index, Problem: invalid.Problem}
		}
	}
	return answer, err
}

func releaseUsers(q *request, in users) (*answer, error) { return q.do(room.Release{Users: in.Users}) }

type move struct {
	Users []string `json:"users" minItems:"1" maxItems:"64" uniqueItems:"true"`
	To    string   `json:"to" pattern:"^[A-Za-z0-9._-]{1,64}$" doc:"The id of a room."`
}

type moved struct {
	From position `json:"from"`
	To   party    `json:"to"`
}

func moveUsers(q *request, in move) (*answer, error) {
	if err := room.CheckID(in.To); err != nil {
		return nil, badField("to", "must be a room's id, of A-Z a-z 0-9 . _ -, not %q", protocol.Shorten(in.To))
	}
	if err := q.token.May(auth.Enter, in.To, false); err != nil {
		return nil, err
	}
	left, joined, err := q.api.server.Move(q.Context(), q.room, in.To, in.Users...)
	if err != nil {
		return nil, err
	}
	return ok(moved{From: at(q.room, left.Snapshot), To: partyOf(in.To, joined.Snapshot, in.Users)})
}
