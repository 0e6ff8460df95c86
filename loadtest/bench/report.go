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

	// WebSocket is the figure for the whole path, nil if it was not asked for.
	WebSocket *WebSocket `json:"websocket,omitempty"`
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
// error that names where not.
func (r *Report) Err() error {
	var wrong []string
	for _, w := range workloads {
		for _, name := range inOrder(r.Workloads[w.name]) {
			if problems := r.Workloads[w.name][name].wrong(); len(problems) > 0 {
				wrong = append(wrong, fmt.Sprintf("%s, %s: %s", w.name, name, strings.Join(problems, "; ")))
			}
		}
	}
	if r.WebSocket != nil {
		if problems := r.WebSocket.wrong(); len(problems) > 0 {
			wrong = append(wrong, fmt.Sprintf("%s: %s", webSocketName, strings.Join(problems, "; ")))
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return fmt.Errorf("wrong lists or failed actions:\n  %s", strings.Join(wrong, "\n  "))
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
