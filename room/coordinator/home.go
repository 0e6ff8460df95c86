package coordinator

import "strings"

// homes are hash tags, one in each sixteenth of the slots of a Redis Cluster: they are
// spread over the masters as the slots are.
//
// A node's name on Cluster begins with its home. So its lease, the set of its rooms
// and the list of nodes that has it are on one master, and are written in one step.
// A node whose home is away takes a new name at another one.
var homes = [...]string{
	"{ma}", "{qp}", "{dj}", "{wz}", "{sb}", "{pv}", "{uh}", "{fx}",
	"{cx}", "{ph}", "{uv}", "{yc}", "{rz}", "{qn}", "{dt}", "{ha}",
}

// nodesKey is a sorted set of the nodes that may have members, by the time when their leases
// end. It saves searching all keys for them. On Cluster each home has one.
const nodesKey = "Nodes"

func nodeKey(node string) string      { return "Node:" + node }
func nodeRoomsKey(node string) string { return "Node:" + node + ":Rooms" }

// nodeInfoKey has what a node says of itself, and nodeDrainKey exists if it is to stop.
func nodeInfoKey(node string) string  { return "Node:" + node + ":Info" }
func nodeDrainKey(node string) string { return "Node:" + node + ":Drain" }

// nodeStoppedKey exists for a while after a node has stopped, and not after it has died.
func nodeStoppedKey(node string) string { return "Node:" + node + ":Stopped" }

// nodeLists returns the keys of all lists of nodes.
func nodeLists(cluster bool) []string {
	if !cluster {
		return []string{nodesKey}
	}
	keys := make([]string, len(homes))
	for i, home := range homes {
		keys[i] = nodesKey + ":" + home
	}
	return keys
}

// splitNode returns the home and the rest of a node's name on Cluster.
func splitNode(node string) (home, name string) {
	end := strings.IndexByte(node, '}') + 1
	return node[:end], node[end:]
}
