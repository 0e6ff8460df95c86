// Package metrics counts what a node does, for Prometheus.
//
// [New] makes the metrics. Give [Metrics.Rooms] to the coordinator, [Metrics.Clients] to the server, and
// [Metrics.Hook] to the client of Redis; they count while the node works, without a lock and without an allocation.
// What can be read is not counted: the node that [Metrics.Observe] names is asked for it when Prometheus asks.
package metrics

import (
	"cmp"
	"net/http"
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"roomd/room"
)

const namespace = "roomd"

// maxScrapes is how many requests for the metrics run at the same time; further ones get 503.
const maxScrapes = 4

// Metrics are those of one node. They are a collector, for a registry of somebody else.
type Metrics struct {
	*prometheus.Registry
	actions *actions
	locks   *locks
	trouble *trouble
	clients *clients
	redis   *roundTrips
}

// New returns the metrics of a node.
func New() *Metrics {
	m := &Metrics{Registry: prometheus.NewRegistry()}
	m.MustRegister(info("build_info", "The version of roomd, and of the Go that built it. Always 1.", build()))
	m.actions = newActions(m.Registry)
	m.locks = newLocks(m.Registry)
	m.trouble = newTrouble(m.Registry)
	m.clients = newClients(m.Registry)
	m.redis = newRoundTrips(m.Registry)
	return m
}

// CheckSettings returns an error if the name of a setting cannot be a label of roomd_config_info.
func CheckSettings(settings map[string]string) error {
	if err := prometheus.NewRegistry().Register(info("config_info", "", settings)); err != nil {
		return &room.InvalidError{Field: "Settings", Problem: "cannot be labels: " + err.Error()}
	}
	return nil
}

// Observe adds what can be read of a node, also its settings, which become the labels of roomd_config_info: no
// value is a secret, and their names are fit for labels and do not change. Call it once.
func (m *Metrics) Observe(n Node) { m.MustRegister(newGauges(n)) }

// Handler serves the metrics, and those of Go and the process.
func (m *Metrics) Handler() http.Handler {
	all := prometheus.NewRegistry()
	all.MustRegister(m, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(all, promhttp.HandlerOpts{
		MaxRequestsInFlight: maxScrapes,
		ErrorHandling:       promhttp.ContinueOnError, // some metrics are better than none
	})
}

// counter registers a counter and returns it.
func counter(r prometheus.Registerer, name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help})
	r.MustRegister(c)
	return c
}

// counters registers counters that differ in labels, and returns them.
func counters(r prometheus.Registerer, name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
	r.MustRegister(c)
	return c
}

// histogram registers a histogram and returns it.
func histogram(r prometheus.Registerer, name, help string, buckets []float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help,
		Buckets: buckets})
	r.MustRegister(h)
	return h
}

// histograms registers histograms that differ in one label, and returns them.
func histograms(r prometheus.Registerer, name, help, label string, buckets []float64) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help,
		Buckets: buckets}, []string{label})
	r.MustRegister(h)
	return h
}

// times are buckets in seconds: from a round trip to a Redis nearby to the longest wait for a lock.
var times = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}

// info returns a metric that is always 1, and whose labels say something.
func info(name, help string, labels map[string]string) prometheus.Collector {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help, ConstLabels: labels})
	g.Set(1)
	return g
}

// build returns what Go has recorded of this program.
func build() map[string]string {
	labels := map[string]string{"version": "unknown", "revision": "unknown", "go_version": runtime.Version(),
		"platform": runtime.GOOS + "/" + runtime.GOARCH}
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
