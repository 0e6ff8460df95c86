package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"roomd/loadtest/internal/tally"
	"roomd/loadtest/report"
)

const (
	webSocketName = "websocket"
	twoNodesName  = "websocket-two-nodes"
	pacedName     = "websocket-paced"
	turns         = 2 // of each server, one after the other
)

var (
	webSocketLoad = workload{
		name:    webSocketName,
		about:   "1,000 WebSockets at 250 tables of four, where two come and go and two stay and get the events; by turns with an echo server",
		clients: 1000, rooms: 250, nodes: 1,
	}
	twoNodesLoad = workload{
		name:    twoNodesName,
		about:   "as websocket, with two nodes: at each table one of the two who come and go is at either, and one of the two who stay",
		clients: 1000, rooms: 250, nodes: 2,
	}
	pacedLoad = workload{
		name:    pacedName,
		about:   "as websocket, but 2,000 actions/s: who comes and goes acts four times a second",
		clients: 1000, rooms: 250, nodes: 1, pace: 250 * time.Millisecond,
	}
)

// measureWebSocket measures roomd through its WebSockets. It returns an error if ctx has ended.
func (b *bench) measureWebSocket(ctx context.Context, w workload) (*WebSocket, error) {
	prefix := b.begin(w.name)
	r, err := b.tryWebSocket(ctx, w, prefix)
	err, stopped := b.finish(ctx, prefix, err)
	if stopped != nil {
		return nil, stopped
	}
	if err != nil {
		r = newWebSocket(w, &measurement{}, &measurement{}, Violations{})
		r.Failure = err.Error()
	}
	fmt.Fprintf(b.log, "%s actions/s, echo %s/s\n", r.ActionsPerSec.Text("%.0f"), r.EchoPerSec.Text("%.0f"))
	return r, nil
}

func (b *bench) tryWebSocket(ctx context.Context, w workload, prefix string) (*WebSocket, error) {
	tables := &tables{load: w, meter: b.meter, rooms: w.names(prefix)}
	defer tables.close()
	if err := tables.open(ctx, b, prefix+"node"); err != nil {
		return nil, err
	}
	var played, called measurement
	for range turns {
		for _, turn := range []struct {
			sockets []*socket
			sum     *measurement
		}{{tables.callers, &called}, {tables.players, &played}} {
			m, err := tables.turn(ctx, turn.sockets, b.duration/turns)
			if err != nil {
				return nil, err
			}
			turn.sum.extend(m)
		}
	}
	if echo := tally.Sum(called.actors...); echo.FirstError() != nil {
		n, _ := echo.Errors()
		return nil, fmt.Errorf("the echo server: %d errors, the first: %w", n, echo.FirstError())
	}
	if err := tables.allHeard(); err != nil {
		return nil, err
	}
	v, err := tables.check(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the lists: %w", err)
	}
	return newWebSocket(w, &played, &called, v), nil
}

// WebSocket is the outcome of roomd through its WebSockets: the figures of a Result, and
// those of an echo server beside it.
type WebSocket struct {
	Result
	load         workload
	Connections  int           `json:"connections"` // to each of the two
	Acting       int           `json:"acting"`      // of them; the others stay and get the events
	Rooms        int           `json:"rooms"`
	EventsPerSec report.Figure `json:"events_per_s"` // frames about other clients' actions
	Events       int64         `json:"events"`
	EchoPerSec   report.Figure `json:"echo_per_s"`
	EchoLatency  tally.Latency `json:"echo_latency_ms"`
	EchoAllocs   report.Figure `json:"echo_allocs_per_action"`
	EchoCPU      report.Figure `json:"echo_cpu_us_per_action"`
	Ratio        report.Figure `json:"ratio"` // of roomd's actions to the echo server's
}

func newWebSocket(w workload, played, called *measurement, v Violations) *WebSocket {
	return &WebSocket{
		Result:       *newResult(played, v),
		load:         w,
		Connections:  w.clients,
		Acting:       len(played.actors),
		Rooms:        w.rooms,
		Events:       int64(played.used.events),
		EventsPerSec: report.Per(played.used.events, played.took.Seconds()),
		EchoPerSec:   called.perSecond(),
		EchoLatency:  tally.Sum(called.actors...).Latency(),
		EchoAllocs:   report.Per(called.used.mallocs, float64(called.total())),
		EchoCPU:      report.Per(called.used.own, float64(called.total())),
		Ratio:        report.Per(float64(played.perSecond()), float64(called.perSecond())),
	}
}

func (s *WebSocket) problems() []string { return problem(s.load.name, s.wrong()) }

func (s *WebSocket) figures() *figures {
	return &figures{name: s.load.name, about: s.load.about, table: report.Table{
		Columns: slices.Concat([]report.Column{{Head: ""}, s.load.columns()[1], {Head: "×echo", About: "actions/s divided by those of an echo server with the same clients"}},
			latencyColumns, []report.Column{{Head: "events/s", About: "frames per second about other clients' actions"}}, costColumns),
		Rows: []report.Row{
			{Cells: slices.Concat([]string{"echo", s.EchoPerSec.Text("%.0f"), "1.00"}, latencyTexts(s.EchoLatency),
				[]string{"–", "–", "–", "–", s.EchoCPU.Text("%.1f"), "–", s.EchoAllocs.Text("%.1f")})},
			{Strong: true, Cells: slices.Concat([]string{"roomd", s.ActionsPerSec.Text("%.0f"), s.Ratio.Text("%.2f")}, latencyTexts(s.Latency),
				[]string{s.EventsPerSec.Text("%.0f")}, s.costs())},
		},
		Notes: notes("roomd", s.remarks()),
		About: "The whole path: handshake, frames, sessions and events through real WebSockets. The echo server shows what sockets and clients cost alone.",
	}}
}
