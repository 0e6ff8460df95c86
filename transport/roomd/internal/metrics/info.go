package metrics

import (
	"cmp"
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
)

// info returns a metric that is always 1, and whose labels say something.
func info(name, help string, labels map[string]string) prometheus.Collector {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help, ConstLabels: labels})
	g.Set(1)
	return g
}

// build returns what Go has recorded of this program.
func build() map[string]string {
	labels := map[string]string{"version": "unknown", "revision": "unknown", "go_version": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH}
	read, ok := debug.ReadBuildInfo()
	if !ok {
		return labels
	}
	labels["version"] = cmp.Or(read.Main.Version, labels["version"])
	for _, s := range read.Settings {
		if s.Key == "vcs.revision" {
			labels["revision"] = s.Value
		}
	}
	return labels
}
