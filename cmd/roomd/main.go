// Command roomd is a node: a server that game clients connect to, which keeps
// rooms in Redis together with all other nodes on it.
package main

import (
	"roomd/room"
	"roomd/transport/node"
)

func main() { node.Main(room.Rules{}) }
