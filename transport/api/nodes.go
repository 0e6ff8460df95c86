package api

import (
	"errors"
	"net/http"
	"time"

	"roomd/room"
	"roomd/room/coordinator"
)

// shownNode is a node as it describes itself, and what the node that was asked knows of it.
type shownNode struct {
	coordinator.NodeReport

	AgeMS int64 `json:"age_ms"` // of the report
	Self  bool  `json:"self"`
}

// silentNode is a node that says nothing of itself; this is what its lease says.
type silentNode struct {
	Node     string            `json:"node"`
	Address  string            `json:"address"`
	Settings map[string]string `json:"settings"`
	Self     bool              `json:"self"`
}

// nodeList is all nodes: of shownNode and silentNode.
type nodeList struct {
	Nodes []any `json:"nodes"`
}

// listNodes is GET /api/nodes.
func listNodes(q *request) (*answer, error) {
	if _, err := q.query(); err != nil {
		return nil, err
	}
	if err := q.allowNodes(); err != nil {
		return nil, err
	}
	nodes, err := q.api.rooms.Nodes(q.Context())
	if err != nil {
		return nil, err
	}
	list := nodeList{make([]any, 0, len(nodes))}
	for i := range nodes {
		list.Nodes = append(list.Nodes, q.shown(&nodes[i]))
	}
	return ok(list)
}

func (q *request) shown(n *coordinator.NodeInfo) any {
	self := n.Name == q.api.rooms.Node()
	if n.Report == nil {
		return silentNode{n.Name, n.Address, n.Settings.Strings(), self}
	}
	return shownNode{*n.Report, n.Age.Truncate(time.Millisecond).Milliseconds(), self}
}

// drainNode is POST /api/nodes/{node}/drain.
func drainNode(q *request) (*answer, error) {
	if _, err := q.query(); err != nil {
		return nil, err
	}
	if err := q.allowNodes(); err != nil {
		return nil, err
	}
	switch err := q.api.rooms.Drain(q.Context(), q.node); {
	case errors.Is(err, coordinator.ErrNoNode):
		return nil, notFound("there is no node %.100q", q.node)
	case err != nil:
		return nil, err
	}
	return &answer{status: http.StatusAccepted}, nil
}

// allowNodes returns an error if the caller may see some rooms only: nodes have all of them.
func (q *request) allowNodes() error {
	if q.token.User != "" && q.token.Rooms != nil {
		return room.Forbid("nodes are for admins whose tokens allow all rooms")
	}
	return nil
}
