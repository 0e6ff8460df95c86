package metrics

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"roomd/transport"
	"roomd/transport/protocol"
)

type clients struct {
	connected, merged prometheus.Counter
	closed            map[int]prometheus.Counter // by code; never changes
	closedOtherwise   prometheus.Counter
	refused           map[string]prometheus.Counter // by limit; never changes
	refusedOtherwise  prometheus.Counter
}

// closeCodes are the codes with which a server closes a connection.
var closeCodes = []int{
	protocol.CloseBroken, protocol.CloseNotText, protocol.CloseNotUTF8, protocol.ClosePolicy, protocol.CloseTooBig,
	protocol.CloseRestart,
	protocol.CloseReplaced, protocol.CloseUnauthorized, protocol.CloseTooSlow, protocol.CloseTooMany,
}

func newClients(r prometheus.Registerer) *clients {
	c := &clients{
		connected: counter(r, "connections_total", "WebSockets that were opened."),
		merged: counter(r, "merged_events_total",
			"Events that waited for a client, and went into one frame with the event before them."),
		closed:  make(map[int]prometheus.Counter),
		refused: make(map[string]prometheus.Counter),
	}
	closed := counters(r, "connections_closed_total",
		"WebSockets that the server has closed, by the code of its close frame.", "code")
	for _, code := range closeCodes {
		c.closed[code] = closed.WithLabelValues(strconv.Itoa(code))
	}
	c.closedOtherwise = closed.WithLabelValues("other")
	refused := counters(r, "refused_total", "Connections and requests that a limit has refused, or ended; queue: changes dropped for a snapshot.", "limit")
	for _, limit := range transport.Limits() {
		c.refused[limit] = refused.WithLabelValues(limit)
	}
	c.refusedOtherwise = refused.WithLabelValues("other")
	return c
}

func (c *clients) close(code int) {
	if known, ok := c.closed[code]; ok {
		known.Inc()
		return
	}
	c.closedOtherwise.Inc()
}

func (c *clients) refuse(limit string) {
	if known, ok := c.refused[limit]; ok {
		known.Inc()
		return
	}
	c.refusedOtherwise.Inc()
}

// Clients returns a trace for the server.
func (m *Metrics) Clients() *transport.Trace {
	c := m.clients
	return &transport.Trace{
		Refused:   c.refuse,
		Connected: c.connected.Inc,
		Closed:    c.close,
		Merged:    func(events int) { c.merged.Add(float64(events)) },
	}
}
