package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"time"

	"roomd/loadtest"
	"roomd/loadtest/chaos/check"
	"roomd/lockmgr/redisconn/pause"
	"roomd/transport/protocol"
)

// adminPause is between two actions of the administrator, on average.
const adminPause = 80 * time.Millisecond

// administrator has authority over the rooms, by the HTTP API of any node.
type administrator struct {
	run    *run
	random *rand.Rand
	http   *http.Client
	does   []string
	lives  int
	guests map[string][]string // by room: users with reserved seats who do not come
	number int                 // of guests
}

func newAdministrator(r *run) *administrator {
	return &administrator{
		run: r, random: rand.New(rand.NewPCG(r.cfg.Seed, 0)), does: r.rules, lives: 1, guests: make(map[string][]string),
		http: &http.Client{Timeout: callTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: 1}},
	}
}

// act acts until ctx ends.
func (a *administrator) act(ctx context.Context) {
	defer a.http.CloseIdleConnections()
	for ctx.Err() == nil && len(a.does) > 0 {
		a.do(a.does[a.random.IntN(len(a.does))], a.run.rooms[a.random.IntN(len(a.run.rooms))])
		_ = pause.For(ctx, time.Duration(a.random.Int64N(int64(2*adminPause))))
	}
}

func (a *administrator) do(what, room string) {
	switch what {
	case loadtest.MixConfigure:
		a.configure(room, a.random.IntN(12) == 0)
	case loadtest.MixKick:
		a.kick(room)
	case loadtest.MixClose:
		if a.random.IntN(4) == 0 {
			a.call(room, check.Op{Action: check.Close}, http.MethodDelete, "", nil)
			a.configure(room, false)
		}
	case loadtest.MixDeal:
		a.deal(room)
	case loadtest.MixParty:
		a.party(room)
	case loadtest.MixMove:
		a.move(room)
	}
}

// configure changes the capacity, or closes the room for a moment.
func (a *administrator) configure(room string, closed bool) {
	capacity := a.run.cfg.Capacity
	s := check.Settings{Capacity: capacity/2 + 1 + a.random.IntN(capacity), Closed: closed}
	a.settle(room, s)
	if closed {
		a.settle(room, check.Settings{Capacity: capacity})
	}
}

// settle gives a room settings, and keeps it while it is empty.
func (a *administrator) settle(room string, s check.Settings) *check.Op {
	return a.call(room, check.Op{Action: check.Configure, Settings: &s}, http.MethodPut, "", map[string]any{"capacity": s.Capacity, "closed": s.Closed, "keep": true})
}

// kick throws out a member, sometimes for a second.
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

// someone returns a player who believes to be in a room.
func (a *administrator) someone(room string) string {
	players := a.run.players
	for i, first := 0, a.random.IntN(len(players)); i < len(players); i++ {
		if user, in := players[(first+i)%len(players)].believes(room); in {
			return user
		}
	}
	return ""
}

// deal deals the same to some players who believe to be in a room, now and then to a stranger, too.
func (a *administrator) deal(room string) {
	value, hands := fmt.Sprintf("hand-%d", a.run.history.value()), make(map[string]string)
	for range 1 + a.random.IntN(3) {
		if user := a.someone(room); user != "" {
			hands[user] = value
		}
	}
	if a.random.IntN(8) == 0 {
		hands["stranger"] = value
	}
	if len(hands) > 0 {
		a.call(room, check.Op{Action: check.Deal, Users: slices.Sorted(maps.Keys(hands)), Value: value}, http.MethodPost, "/deal", map[string]any{"hands": hands})
	}
}

// party reserves seats for guests who do not come, or lets them leave.
func (a *administrator) party(room string) {
	if guests := a.guests[room]; len(guests) > 0 {
		delete(a.guests, room)
		a.call(room, check.Op{Action: check.Release, Users: guests}, http.MethodPost, "/release", map[string]any{"users": guests})
		return
	}
	var guests []string
	for range 2 + a.random.IntN(2) {
		a.number++
		guests = append(guests, fmt.Sprintf("guest %d", a.number))
	}
	if op := a.call(room, check.Op{Action: check.Reserve, Users: guests}, http.MethodPost, "/seats", map[string]any{"users": guests}); op.Outcome == check.Done {
		a.guests[room] = guests
	}
}

// move takes a member to another room: two operations, one in each.
func (a *administrator) move(from string) {
	to := a.run.rooms[a.random.IntN(len(a.run.rooms))]
	user := a.someone(from)
	if to == from || user == "" {
		return
	}
	out := &check.Op{Action: check.MoveOut, Room: from, Users: []string{user}}
	in := &check.Op{Action: check.MoveIn, Room: to, Users: []string{user}}
	node := a.begin(out, in)
	var said struct{ From, To position }
	code, err := a.send(node, http.MethodPost, from, "/move", map[string]any{"users": out.Users, "to": to}, &said)
	a.end(out, code, err, said.From, true)
	a.end(in, code, err, said.To, false)
	if out.Outcome == check.Unknown {
		a.lives++
	}
}

// position is where the API says that a room is.
type position struct {
	Epoch   string
	Version uint64
	Count   int
	Users   []check.Member
}

// call makes one request that is one operation.
func (a *administrator) call(room string, op check.Op, method, path string, body any) *check.Op {
	op.Room = room
	node := a.begin(&op)
	var at position
	code, err := a.send(node, method, room, path, body, &at)
	a.end(&op, code, err, at, true)
	if op.Outcome == check.Unknown {
		a.lives++
	}
	return &op
}

// begin records that operations begin, and returns at which node.
func (a *administrator) begin(ops ...*check.Op) (node int) {
	node = a.random.IntN(len(a.run.nodes))
	for _, op := range ops {
		op.Process, op.Node = fmt.Sprintf("administrator %d", a.lives), node+1
		a.run.history.call(op)
	}
	return node
}

// end records how an operation ended.
func (a *administrator) end(op *check.Op, code string, err error, at position, counts bool) {
	switch {
	case err != nil || code == protocol.CodeUnknown:
		op.Outcome = check.Unknown
	case code != "":
		op.Outcome, op.Code = check.Refused, code
	default:
		op.Outcome = check.Done
		op.Epoch, op.Version, op.Count = at.Epoch, at.Version, at.Count
	}
	a.run.history.returned(op, counts)
}

// send sends a request to a node, and returns the code of its refusal, if it is refused.
func (a *administrator) send(node int, method, room, path string, body, into any) (code string, err error) {
	var text []byte
	if body != nil {
		if text, err = json.Marshal(body); err != nil {
			return "", err
		}
	}
	address := "http://" + a.run.nodes[node].admin + "/api/rooms/" + url.PathEscape(room) + path
	req, err := http.NewRequest(method, address, bytes.NewReader(text))
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

// prepare gives the rooms settings, so that they are kept while they are empty.
func (a *administrator) prepare() error {
	for _, room := range a.run.rooms {
		if op := a.settle(room, check.Settings{Capacity: a.run.cfg.Capacity}); op.Outcome != check.Done {
			return fmt.Errorf("room %s could not be set up: %s", room, op)
		}
	}
	return nil
}

// believes returns the player's user, and whether it believes to be in a room.
func (p *player) believes(room string) (user string, in bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.name, p.rooms[room] != nil && slices.Contains(p.run.rooms, room)
}
