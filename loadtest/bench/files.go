package bench

import (
	"fmt"
	"slices"
	"strings"

	"roomd/loadtest/bench/crew"
)

// affordable returns how many clients a server may have whose process may open that many files; 0
// files stands for any number. A node keeps one file in eight, up to 1,024, for itself, and as many
// for connections that are no WebSockets.
func affordable(clients, files int) int {
	if files == 0 {
		return clients
	}
	return max(1, min(clients, files-2*max(128, min(files/8, 1024))))
}

// afford returns how many of the wanted clients the limit on open files allows, and says so if it
// is fewer.
func (b *bench) afford() int {
	n := affordable(b.connections, maxFiles())
	if n < b.connections {
		fmt.Fprintf(b.log, "the limit of %d open files (ulimit -n) allows %d connections instead of %d\n", maxFiles(), n, b.connections)
	}
	return n
}

// tell returns in words what became of clients, except of those that did it.
func tell(o crew.Outcome) string {
	var texts []string
	for _, kinds := range []map[string]int{o.Refused, o.Failures} {
		for kind, n := range kinds {
			texts = append(texts, fmt.Sprintf("%d× %s", n, kind))
		}
	}
	slices.Sort(texts)
	return strings.Join(texts, ", ")
}
