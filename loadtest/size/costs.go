package size

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"time"
)

// Costs are what single things cost, and where that was measured.
type Costs struct {
	Machine  string             `json:"machine"`
	Measured string             `json:"measured"` // when, and by which version of what
	Values   map[string]float64 `json:"costs"`    // by the name of a cost
}

// Cost is one line of the table.
type Cost struct {
	Name string
	Unit string
	What string
}

// Names of costs.
const (
	NodeAction     = "node-cpu-action"
	NodeCommit     = "node-cpu-commit"
	NodeEvent      = "node-cpu-event"
	NodeConnection = "node-cpu-connection"
	NodeIdle       = "node-cpu-idle"
	NodeFalls      = "node-cpu-falls"

	NodeMemory           = "node-memory"
	NodeMemoryConnection = "node-memory-connection"
	NodeMemoryAsIs       = "node-memory-connection-as-is"
	NodeMemoryMember     = "node-memory-member"
	NodeMemoryRoom       = "node-memory-room"
	NodeGarbage          = "node-memory-garbage"
	KernelConnection     = "kernel-memory-connection"

	RedisCommit     = "redis-cpu-commit"
	RedisContended  = "redis-cpu-contended"
	RedisSubscriber = "redis-cpu-subscriber"
	RedisJournal    = "redis-cpu-journal"
	RedisFeed       = "redis-cpu-feed"
	RedisReplica    = "redis-cpu-replica"
	RedisCluster    = "redis-cpu-cluster"
	RedisNode       = "redis-cpu-node"
	RedisIdle       = "redis-cpu-idle"
	RedisFalls      = "redis-cpu-falls"

	BusyRate = "busy-rate"

	RedisMemory           = "redis-memory"
	RedisMemoryRoom       = "redis-memory-room"
	RedisMemoryMember     = "redis-memory-member"
	RedisMemorySubscriber = "redis-memory-subscriber"
	RedisMemoryEntry      = "redis-memory-entry"
	RedisMemoryFeed       = "redis-memory-feed"

	BytesAction   = "bytes-action"
	BytesReply    = "bytes-reply"
	BytesEvent    = "bytes-event"
	BytesPing     = "bytes-ping"
	BytesCommit   = "bytes-commit"
	BytesAnswer   = "bytes-answer"
	BytesMessage  = "bytes-message"
	BytesNodeIdle = "bytes-node-idle"
)

// Table is all costs, in their order.
var Table = []Cost{
	{BusyRate, "/s", "actions of a node, and of a master, from which on a single one costs what is below"},
	{NodeAction, "µs", "processor time of a node for an action: the request, the commit, the reply"},
	{NodeCommit, "µs", "of each node with somebody in the room, for hearing of a commit"},
	{NodeEvent, "µs", "of a node for an event that it delivers to another client than who acts"},
	{NodeConnection, "µs/s", "of a node for a connection, which is pinged every 5 s"},
	{NodeIdle, "µs/s", "of a node without connections"},
	{NodeFalls, "", "exponent e: at fewer actions/s the first three are × (busy-rate ÷ actions/s)^e, for want of company"},

	{NodeMemory, "B", "resident memory of a node without connections, after a collection that gives memory back"},
	{NodeMemoryConnection, "B", "of a node for a connection without a room, after such a collection"},
	{NodeMemoryAsIs, "B", "the same as it stands when all have connected, without a collection"},
	{NodeMemoryMember, "B", "of a node for a seat of a player who plays, after such a collection"},
	{NodeMemoryRoom, "B", "of each node with somebody in the room, for a room, after such a collection"},
	{NodeGarbage, "", "by which factor the memory for connections, members and rooms is more than that while a node has much to do"},
	{KernelConnection, "B", "of the kernel for a socket, which no process is charged for"},

	{RedisCommit, "µs", "processor time of Redis for a commit that nobody contends, with telling one node of it"},
	{RedisContended, "µs", "the same for an action in a room where several nodes act at once"},
	{RedisSubscriber, "µs", "for telling each further node of it"},
	{RedisJournal, "µs", "more with --journal"},
	{RedisFeed, "µs", "more with --feed, for copying"},
	{RedisReplica, "µs", "more for each of --replicas, for WAIT and for sending the commit there"},
	{RedisCluster, "µs", "more on a Cluster"},
	{RedisNode, "µs/s", "for each node, which says that it is alive"},
	{RedisIdle, "µs/s", "of a master without nodes"},
	{RedisFalls, "", "exponent e: at fewer actions/s of a master what an action costs is × (busy-rate ÷ actions/s)^e"},

	{RedisMemory, "B", "memory of a server of Redis without rooms, and without the buffers of connections, as below"},
	{RedisMemoryRoom, "B", "for a room with data, its lock and its lines in the indexes"},
	{RedisMemoryMember, "B", "for a member"},
	{RedisMemorySubscriber, "B", "for each node with somebody in the room"},
	{RedisMemoryEntry, "B", "for an entry of a journal"},
	{RedisMemoryFeed, "B", "for an entry of the feed"},

	{BytesAction, "B", "from a client for an action, with the heads of WebSocket frames"},
	{BytesReply, "B", "to a client for an action"},
	{BytesEvent, "B", "to a client for an event of another one"},
	{BytesPing, "B/s", "to a client for pings, and from it for pongs"},
	{BytesCommit, "B", "from a node to Redis for a commit"},
	{BytesAnswer, "B", "from Redis to a node for a commit"},
	{BytesMessage, "B", "from Redis to each node with somebody in the room for a commit"},
	{BytesNodeIdle, "B/s", "between each node and Redis, in both directions together, without actions"},
}

//go:embed measured.json
var measured []byte

// Measured returns the costs that the documents compute with.
func Measured() *Costs {
	c, err := Read(strings.NewReader(string(measured)))
	if err != nil {
		panic("measured.json: " + err.Error()) // a test reads it
	}
	return c
}

// Read reads what [Costs.Write] wrote. It fails if a cost is missing, unknown, or no number from 0 on.
func Read(r io.Reader) (*Costs, error) {
	c := new(Costs)
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	if err := d.Decode(c); err != nil {
		return nil, err
	}
	for _, t := range Table {
		if _, ok := c.Values[t.Name]; !ok {
			return nil, fmt.Errorf("%s is missing: measure again with --calibrate", t.Name)
		}
	}
	for name, value := range c.Values {
		switch {
		case !known(name):
			return nil, fmt.Errorf("%q is no cost", name)
		case !(value >= 0) || math.IsInf(value, 0):
			return nil, fmt.Errorf("%s is %v, it must be 0 or more", name, value)
		}
	}
	return c, nil
}

func known(name string) bool {
	for _, t := range Table {
		if t.Name == name {
			return true
		}
	}
	return false
}

// Write writes the costs as JSON, in the order of the table.
func (c *Costs) Write(w io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "{\n  \"machine\": %s,\n  \"measured\": %s,\n  \"costs\": {\n", quoted(c.Machine), quoted(c.Measured))
	for i, t := range Table {
		comma := ","
		if i == len(Table)-1 {
			comma = ""
		}
		fmt.Fprintf(&text, "    %s: %s%s\n", quoted(t.Name), digits(c.Values[t.Name]), comma)
	}
	text.WriteString("  }\n}\n")
	_, err := io.WriteString(w, text.String())
	return err
}

func quoted(text string) string {
	b, _ := json.Marshal(text) // a string always has a form
	return string(b)
}

// digits returns a value with three significant digits, and whole from 100 on.
func digits(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// WriteTable writes the costs for people.
func (c *Costs) WriteTable(w io.Writer) error {
	var text strings.Builder
	for _, t := range Table {
		fmt.Fprintf(&text, "%-29s %8s %-5s %s\n", t.Name, digits(c.Values[t.Name]), t.Unit, t.What)
	}
	fmt.Fprintf(&text, "\nmeasured on  %s\n         at  %s\n         by  roomload size --calibrate FILE\n", c.Machine, c.Measured)
	_, err := io.WriteString(w, text.String())
	return err
}

// Today returns the text of Measured for a measurement that ends now.
func Today() string { return time.Now().UTC().Format(time.DateOnly) }
