package bench

import (
	"fmt"
	"runtime"
	"strings"
	"time"

	"roomd/loadtest/redisserver"
)

// Report is a whole run. Its JSON form is a contract that scripts rely on.
type Report struct {
	Redis    string  `json:"redis"` // in words
	Go       string  `json:"go"`
	Cores    int     `json:"cores"`
	Duration float64 `json:"duration_s"` // of each measurement

	// Workloads are the results by the names of workload and contender.
	Workloads map[string]map[string]*Result `json:"workloads"`

	// WebSocket is the figure for the whole path, nil if it was not asked for. TwoNodes is with two nodes, and Paced
	// with clients who make pauses.
	WebSocket *WebSocket `json:"websocket,omitempty"`
	TwoNodes  *WebSocket `json:"websocket_two_nodes,omitempty"`
	Paced     *WebSocket `json:"websocket_paced,omitempty"`

	// Memory needs processes of its own. It is nil if it was not asked for.
	Memory *Memory `json:"memory,omitempty"`
}

func newReport(r *redisserver.Redis, duration time.Duration) *Report {
	return &Report{
		Redis:     r.String(),
		Go:        runtime.Version(),
		Cores:     runtime.NumCPU(),
		Duration:  duration.Seconds(),
		Workloads: make(map[string]map[string]*Result),
	}
}

// Err returns nil if every list was right and no action failed, and otherwise an
// error that names what was not.
func (r *Report) Err() error {
	wrong := r.wrong()
	if len(wrong) == 0 {
		return nil
	}
	return fmt.Errorf("wrong lists or failed actions:\n  %s", strings.Join(wrong, "\n  "))
}

// wrong returns a line for each measurement in which something was wrong.
func (r *Report) wrong() (lines []string) {
	for _, w := range workloads {
		for _, name := range inOrder(r.Workloads[w.name]) {
			lines = append(lines, problem(w.name+", "+name, r.Workloads[w.name][name].wrong())...)
		}
	}
	for _, p := range r.parts() {
		lines = append(lines, p.problems()...)
	}
	return lines
}

// problem returns a line about what was wrong somewhere, or none.
func problem(where string, wrong []string) []string {
	if len(wrong) == 0 {
		return nil
	}
	return []string{where + ": " + strings.Join(wrong, "; ")}
}

// parts returns the results of the workloads that compare no contenders, as far as there are any.
func (r *Report) parts() (list []part) {
	for _, w := range []*WebSocket{r.WebSocket, r.TwoNodes, r.Paced} {
		if w != nil {
			list = append(list, w)
		}
	}
	if r.Memory != nil {
		list = append(list, r.Memory)
	}
	return list
}

// inOrder returns the names of those that have a result, in the contenders' order.
func inOrder(results map[string]*Result) (names []string) {
	for _, c := range contenders {
		if results[c.name] != nil {
			names = append(names, c.name)
		}
	}
	return names
}
