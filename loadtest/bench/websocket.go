package bench

import (
	"context"
	"fmt"
	"slices"

	"roomd/loadtest/report"
)

const (
	webSocketName = "websocket"
	turns         = 2 // of each server, one after the other
)

var webSocketLoad = workload{
	name:    webSocketName,
	about:   "1,000 WebSockets at 250 tables of four, where two come and go and two stay and get the events; by turns with an echo server",
	clients: 1000, rooms: 250, nodes: 1,
}

// wholePath measures roomd through its WebSockets. It returns an error if ctx has ended.
func (b *bench) wholePath(ctx context.Context, w workload) (*WebSocket, error) {
	prefix := b.begin(w.name)
	r, err := b.tryWholePath(ctx, w, prefix)
	err, stopped := b.finish(ctx, prefix, err)
	if stopped != nil {
		return nil, stopped
	}
	if err != nil {
		r = newWebSocket(w, newTally(), newTally(), Violations{})
		r.Failure = err.Error()
	}
	fmt.Fprintf(b.log, "%s actions/s, echo %s/s\n", r.ActionsPerSec.Text("%.0f"), r.EchoPerSec.Text("%.0f"))
	return r, nil
}

func (b *bench) tryWholePath(ctx context.Context, w workload, prefix string) (*WebSocket, error) {
	h := &hall{load: w, meter: b.meter, rooms: w.names(prefix)}
	defer h.close()
	if err := h.open(ctx, b, prefix+"node"); err != nil {
		return nil, err
	}
	played, called := newTally(), newTally()
	for range turns {
		for _, turn := range []struct {
			sockets []*socket
			sum     *tally
		}{{h.callers, called}, {h.players, played}} {
			t, err := h.turn(ctx, turn.sockets, b.duration/turns)
			if err != nil {
				return nil, err
			}
			turn.sum.extend(t)
		}
	}
	if called.errors > 0 {
		return nil, fmt.Errorf("the echo server: %d errors, the first: %s", called.errors, called.first)
	}
	if err := h.allHeard(); err != nil {
		return nil, err
	}
	v, err := h.check(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the lists: %w", err)
	}
	return newWebSocket(w, played, called, v), nil
}

// WebSocket is the outcome of roomd through its WebSockets: the figures of a Result, and
// those of an echo server beside it.
type WebSocket struct {
	Result
	Connections  int     `json:"connections"` // to each of the two
	Acting       int     `json:"acting"`      // of them; the others stay and get the events
	Rooms        int     `json:"rooms"`
	EventsPerSec Figure  `json:"events_per_s"` // frames about other clients' actions
	Events       int64   `json:"events"`
	EchoPerSec   Figure  `json:"echo_per_s"`
	EchoLatency  Latency `json:"echo_latency_ms"`
	EchoAllocs   Figure  `json:"echo_allocs_per_action"`
	EchoCPU      Figure  `json:"echo_cpu_us_per_action"`
	Ratio        Figure  `json:"ratio"` // of roomd's actions to the echo server's
}

func newWebSocket(w workload, played, called *tally, v Violations) *WebSocket {
	return &WebSocket{
		Result:       *newResult(played, v),
		Connections:  w.clients,
		Acting:       len(played.actions),
		Rooms:        w.rooms,
		Events:       int64(played.used.events),
		EventsPerSec: per(played.used.events, played.took.Seconds()),
		EchoPerSec:   Figure(called.perSecond()),
		EchoLatency:  newLatency(called.latency),
		EchoAllocs:   per(called.used.mallocs, float64(called.total())),
		EchoCPU:      per(called.used.own, float64(called.total())),
		Ratio:        per(played.perSecond(), called.perSecond()),
	}
}

func (s *WebSocket) figures() *figures {
	costs := slices.Clone(resultColumns[len(resultColumns)-5:])
	columns := slices.Concat([]report.Column{{Head: ""}, resultColumns[1], {Head: "×echo", About: "actions/s divided by those of an echo server with the same clients"},
		resultColumns[4], resultColumns[5], resultColumns[8], resultColumns[9], {Head: "events/s", About: "frames per second about other clients' actions"}}, costs)
	return &figures{name: webSocketName, about: webSocketLoad.about, table: report.Table{
		Columns: columns,
		Rows: []report.Row{
			{Cells: slices.Concat([]string{"echo", s.EchoPerSec.Text("%.0f"), "1.00"}, s.EchoLatency.texts(),
				[]string{"–", "–", "–", s.EchoCPU.Text("%.1f"), "–", s.EchoAllocs.Text("%.1f")})},
			{Strong: true, Cells: slices.Concat([]string{"roomd", s.ActionsPerSec.Text("%.0f"), s.Ratio.Text("%.2f")}, s.Latency.texts(),
				[]string{s.EventsPerSec.Text("%.0f")}, s.costs())},
		},
		Notes: notes("roomd", s.remarks()),
		About: "The whole path: handshake, frames, sessions and events through real WebSockets. The echo server shows what sockets and clients cost alone.",
	}}
}
