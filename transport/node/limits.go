package node

import "fmt"

// limits are how many connections a node keeps open.
type limits struct {
	clients int // WebSockets; further ones are answered with 503
	total   int // with those that are not WebSockets (yet)
}

// limitsFor returns the limits of a node that should serve so many clients, and whose
// process may have so many files open; 0 stands for any number. Where those are too few,
// some are left for Redis and the process itself, and the rest is for clients.
func limitsFor(clients, files int) (limits, error) {
	l := limits{clients, clients + spare(clients)}
	if files == 0 {
		return l, nil
	}
	own := max(16, min(files/2, max(128, min(files/8, 1024))))
	most := files - own
	if l.total <= most {
		return l, nil
	}
	if l = (limits{most - spare(most), most}); l.clients < 1 {
		return l, fmt.Errorf("the process may have %d files open, which leaves none for clients: raise the limit (ulimit -n)", files)
	}
	return l, nil
}

// spare is how many connections there may be that are not WebSockets, in relation to
// those that are.
func spare(n int) int { return max(4, min(n/8, 1024)) }
