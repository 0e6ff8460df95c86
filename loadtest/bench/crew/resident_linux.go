package crew

import (
	"fmt"
	"os"
	"strings"
)

// resident returns how much memory of this process is resident, and how much was at most.
func resident() (now, peak int64) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, 0
	}
	for line := range strings.Lines(string(status)) {
		for name, value := range map[string]*int64{"VmRSS": &now, "VmHWM": &peak} {
			if _, err := fmt.Sscanf(line, name+": %d kB", value); err == nil {
				*value *= 1024
			}
		}
	}
	return now, peak
}
