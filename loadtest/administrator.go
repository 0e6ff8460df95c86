package loadtest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"time"

	"roomd/loadtest/check"
	"roomd/lockmgr/redisconn/pause"
	"roomd/transport/protocol"
)

// administrator manages the rooms through the HTTP API of any node.
type administrator struct {
	game   *Game
	log    *log
	random *rand.Rand
	http   *http.Client
	does   []string
	lives  int
	guests map[string][]string // by room: users with reserved seats who never come
	number int                 // number of guests so far
	known  int                 // how many of the rooms that matches created are configured
}

func newAdministrator(g *Game) *administrator {
	return &administrator{
		game: g, log: g.History.newLog(), random: rand.New(rand.NewPCG(g.cfg.Seed, 0)), does: mixOf(g.cfg.Mix, true),
		lives: 1, guests: make(map[string][]string),
		http: &http.Client{Timeout: g.cfg.CallTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: 1}},
	}
}

// act acts until ctx ends, if there is an API and something to do.
func (a *administrator) act(ctx context.Context) {
	defer a.http.CloseIdleConnections()
	for ctx.Err() == nil && len(a.does) > 0 && len(a.game.cfg.API) > 0 {
		a.adopt()
		a.do(a.does[a.random.IntN(len(a.does))], a.game.rooms[a.random.IntN(len(a.game.rooms))])
		_ = pause.For(ctx, time.Duration(a.random.Int64N(int64(2*a.game.cfg.AdminPause))))
	}
}

// adopt configures a room that a match has created, so that Redis keeps it when it is empty.
func (a *administrator) adopt() {
	rooms := a.game.AllRooms()[len(a.game.rooms):]
	if a.known == len(rooms) {
		return
	}
	if op := a.settle(rooms[a.known], *a.game.begun(rooms[a.known])); op.Outcome == check.Done {
		a.known++
	}
}

func (a *administrator) do(what, room string) {
	switch what {
	case MixConfigure:
		a.configure(room, a.random.IntN(12) == 0)
	case MixKick:
		a.kick(room)
	case MixClose:
		if a.random.IntN(4) == 0 {
			a.call(room, check.Op{Action: check.Close}, http.MethodDelete, "", nil)
			a.configure(room, false)
		}
	case MixDeal:
		a.deal(room)
	case MixParty:
		a.party(room)
	case MixMatch:
		a.match()
	case MixSeats:
		a.seats(room)
	case MixMove:
		a.move(room)
	case MixHost: // opens a room that its host has closed
		a.settle(room, a.usual())
	}
}

// configure changes the capacity, or closes the room for a moment.
func (a *administrator) configure(room string, closed bool) {
	capacity := a.game.cfg.Capacity
	if capacity == 0 {
		capacity = max(8, 2*a.game.cfg.Clients/len(a.game.rooms))
	}
	s := a.usual()
	s.Capacity, s.Closed = capacity/2+1+a.random.IntN(capacity), closed
	a.settle(room, s)
	if closed {
		a.settle(room, a.usual())
	}
}

func (a *administrator) usual() check.Settings {
	s := check.Settings{Capacity: a.game.cfg.Capacity}
	if a.game.does(MixHost) {
		s.Host = check.Longest
	}
	return s
}

// noHost is the name of the default of the setting host: the API and the feed say it.
const noHost = "none"

// settle configures a room, and keeps it while it is empty. Rooms that a match has created are not kept, so
// that their hosts may close them.
func (a *administrator) settle(room string, s check.Settings) *check.Op {
	body := map[string]any{"capacity": s.Capacity, "closed": s.Closed, "keep": s.Labels == "",
		"host": cmp.Or(s.Host, noHost)}
	if s.Labels != "" {
		body["labels"] = s.Labels
	}
	return a.call(room, check.Op{Action: check.Configure, Settings: &s}, http.MethodPut, "", body)
}

// kick removes a member, sometimes with a ban of a second.
func (a *administrator) kick(room string) {
	user := a.someone(room)
	if user == "" {
		return
	}
	body := map[string]any{"user": user, "text": "enough"}
	if a.random.IntN(4) == 0 {
		body["ban"] = 1
	}
	a.call(room, check.Op{Action: check.Kick, Users: []string{user}}, http.MethodPost, "/kick", body)
}

// someone returns a player who believes to be in a room; "" if there is none.
func (a *administrator) someone(room string) string {
	players := a.game.players
	for i, first := 0, a.random.IntN(len(players)); i < len(players); i++ {
		if user, in := players[(first+i)%len(players)].believes(room); in {
			return user
		}
	}
	return ""
}

// deal deals the same data to some players who believe to be in a room, and sometimes to a stranger.
func (a *administrator) deal(room string) {
	value, hands := fmt.Sprintf("hand-%d", a.game.History.Value()), make(map[string]string)
	for range 1 + a.random.IntN(3) {
		if user := a.someone(room); user != "" {
			hands[user] = value
		}
	}
	if a.random.IntN(8) == 0 {
		hands["stranger"] = value
	}
	if len(hands) > 0 {
		a.call(room, check.Op{Action: check.Deal, Users: slices.Sorted(maps.Keys(hands)), Value: value},
			http.MethodPost, "/deal", map[string]any{"hands": hands})
	}
}

// party reserves seats for guests who never come, or removes them.
func (a *administrator) party(room string) {
	if guests := a.guests[room]; len(guests) > 0 {
		delete(a.guests, room)
		a.call(room, check.Op{Action: check.Release, Users: guests}, http.MethodPost, "/release",
			map[string]any{"users": guests})
		return
	}
	guests := a.invite()
	if op := a.call(room, check.Op{Action: check.Reserve, Users: guests}, http.MethodPost, "/seats",
		map[string]any{"users": guests}); op.Outcome == check.Done {
		a.guests[room] = guests
	}
}

// position is a room's epoch and version in a reply of the API.
type position struct {
	Room    string
	Epoch   string
	Version uint64
	Count   int
}

// call makes a request that is one operation. Without a room, the operation finds one.
func (a *administrator) call(room string, op check.Op, method, path string, body any) *check.Op {
	op.Room = room
	api := a.begin(&op)
	var at position
	if room != "" {
		path = "/rooms/" + url.PathEscape(room) + path
	}
	code, err := a.send(api, method, path, body, &at)
	a.end(&op, code, err, at)
	return &op
}

// begin records the start of operations, and chooses a node.
func (a *administrator) begin(ops ...*check.Op) (api string) {
	node := a.random.IntN(len(a.game.cfg.API))
	for _, op := range ops {
		op.Process, op.Node = fmt.Sprintf("administrator %d", a.lives), node+1
		a.log.call(op)
	}
	return a.game.cfg.API[node]
}

func (a *administrator) end(op *check.Op, code string, err error, at position) {
	end := *op
	switch {
	case err != nil || code == protocol.CodeUnknown:
		end.Outcome = check.Unknown
		a.lives++ // after an unknown outcome, the administrator continues under another name
		a.game.fail(err)
	case code != "":
		end.Outcome, end.Code = check.Refused, code
	default:
		end.Outcome, end.Room = check.Done, at.Room
		end.Epoch, end.Version, end.Count = one(at.Epoch), at.Version, at.Count
	}
	a.log.returned(op, end)
}

// send sends a request to a node. code is the code of a refusal.
func (a *administrator) send(api, method, path string, body, into any) (code string, err error) {
	var text []byte
	if body != nil {
		if text, err = json.Marshal(body); err != nil {
			return "", err
		}
	}
	req, err := http.NewRequest(method, api+"/api"+path, bytes.NewReader(text))
	if err != nil {
		return "", err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := a.http.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		return "", json.NewDecoder(resp.Body).Decode(into)
	}
	var problem struct{ Code string }
	if err := json.NewDecoder(resp.Body).Decode(&problem); err != nil {
		return "", fmt.Errorf("HTTP %s: %w", resp.Status, err)
	}
	if problem.Code == "" {
		return "", fmt.Errorf("HTTP %s without a code", resp.Status)
	}
	return problem.Code, nil
}

// Prepare configures the rooms, if there is an administrator, so that Redis keeps them while they are empty.
func (g *Game) Prepare() error {
	if len(g.cfg.API) == 0 {
		return nil
	}
	for _, room := range g.rooms {
		if op := g.admin.settle(room, g.admin.usual()); op.Outcome != check.Done {
			return fmt.Errorf("room %s could not be set up: %s", room, op)
		}
	}
	return nil
}

// believes returns the player's user, and whether the player believes to be in a room.
func (p *player) believes(room string) (user string, in bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.name, p.rooms[room] != nil
}
