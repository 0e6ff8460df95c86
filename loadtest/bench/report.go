package bench

import (
	"fmt"
	"runtime"
	"strings"
	"time"

	"roomd/loadtest/bench/crew"
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

	// WebSocket is the figure for the whole path, nil if it was not asked for.
	WebSocket *WebSocket `json:"websocket,omitempty"`

	// These need processes of their own. Each is nil if it was not asked for.
	Memory     *Memory     `json:"memory,omitempty"`
	Storm      *Storm      `json:"storm,omitempty"`
	Neighbours *Neighbours `json:"neighbours,omitempty"`
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
	add := func(where string, problems []string) {
		if len(problems) > 0 {
			lines = append(lines, where+": "+strings.Join(problems, "; "))
		}
	}
	for _, w := range workloads {
		for _, name := range inOrder(r.Workloads[w.name]) {
			add(w.name+", "+name, r.Workloads[w.name][name].wrong())
		}
	}
	if r.WebSocket != nil {
		add(webSocketName, r.WebSocket.wrong())
	}
	if r.Memory != nil {
		for _, s := range memoryServers {
			add(memoryName+", "+s.name, r.Memory.Servers[s.name].wrong())
		}
	}
	if r.Storm != nil {
		add(stormName, r.Storm.wrong())
	}
	if r.Neighbours != nil {
		for _, name := range crew.Attacks() {
			add(neighboursName+", "+name, r.Neighbours.Attacks[name].wrong())
		}
	}
	return lines
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
