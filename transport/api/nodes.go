package api

import (
	"errors"
	"net/http"
	"time"

	"roomd/room"
	"roomd/room/coordinator"
)

// node is a node's own report, with what the answering node knows about it.
type node struct {
	Node     string            `json:"node" doc:"Its name. It changes when the node's lease was lost."`
	Address  string            `json:"address" doc:"Where game clients reach it."`
	Settings map[string]string `json:"settings" doc:"By the names of the flags, with _ for -."`

	// Nil without a report of the node: then the fields above come from its lease.
	*coordinator.NodeReport

	AgeMS *int64 `json:"age_ms,omitzero" minimum:"0" doc:"How old this is."`
	Self  bool   `json:"self" doc:"It is the node that was asked."`
}

type nodeList struct {
	Nodes []node `json:"nodes"`
}

func listNodes(q *request) (*answer, error) {
	if err := q.allowNodes(); err != nil {
		return nil, err
	}
	nodes, err := q.api.rooms.Nodes(q.Context())
	if err != nil {
		return nil, err
	}
	list := nodeList{make([]node, 0, len(nodes))}
	for i := range nodes {
		n := &nodes[i]
		shown := node{Node: n.Name, Address: n.Address, Settings: n.Settings.Strings(), NodeReport: n.Report,
			Self: n.Name == q.api.rooms.Node()}
		if r := n.Report; r != nil {
			shown.Node, shown.Address, shown.Settings = r.Node, r.Address, r.Settings
			shown.AgeMS = new(n.Age.Truncate(time.Millisecond).Milliseconds())
		}
		list.Nodes = append(list.Nodes, shown)
	}
	return ok(list)
}

func drainNode(q *request) (*answer, error) {
	if err := q.allowNodes(); err != nil {
		return nil, err
	}
	name := q.PathValue("node")
	switch err := q.api.rooms.Drain(q.Context(), name); {
	case errors.Is(err, coordinator.ErrNoNode):
		return nil, notFound("there is no node %.100q", name)
	case err != nil:
		return nil, err
	}
	return &answer{status: http.StatusAccepted}, nil
}

// allowNodes returns an error if the token is for some rooms only: nodes concern all rooms.
func (q *request) allowNodes() error {
	if q.token.User != "" && q.token.Rooms != nil {
		return room.Forbid("nodes are for admins whose tokens allow all rooms")
	}
	return nil
}
