// Package metrics counts a node's work, for Prometheus.
//
// [New] makes the metrics. Give Rooms to the coordinator, Clients to the server, and [Metrics.Hook] to the client of
// Redis; they count without locks and allocations. State is not counted: each scrape reads it from the node of
// [Metrics.Observe].
package metrics

import (
	"cmp"
	"fmt"
	"net/http"
	"reflect"
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"roomd/room"
	"roomd/room/coordinator"
	"roomd/transport"
)

const namespace = "roomd"

// maxScrapes limits the concurrent requests for the metrics. Further ones get 503.
const maxScrapes = 4

// Metrics are the metrics of one node. They are a collector for any registry.
type Metrics struct {
	*prometheus.Registry
	Rooms   *coordinator.Trace // counts for a coordinator
	Clients *transport.Trace   // counts for a server
	redis   *roundTrips
}

// New returns metrics that count nothing until their traces and Hook are used.
func New() *Metrics {
	m := &Metrics{Registry: prometheus.NewRegistry()}
	m.MustRegister(info("build_info", "The version of roomd, and of the Go that built it. Always 1.", build()))
	m.Rooms, m.Clients, m.redis = newRooms(m.Registry), newClients(m.Registry), newRoundTrips(m.Registry)
	return m
}

// CheckSettings returns an error if the name of a setting cannot be a label of roomd_config_info.
func CheckSettings(settings map[string]string) error {
	if err := prometheus.NewRegistry().Register(configInfo(settings)); err != nil {
		return &room.InvalidError{Field: "Settings", Problem: "cannot be labels: " + err.Error()}
	}
	return nil
}

// Observe adds the state of a node. Its settings become labels of roomd_config_info: they must contain no secret, and
// their names must be valid labels. Call it once.
func (m *Metrics) Observe(n Node) { m.MustRegister(newGauges(n), configInfo(n.Settings())) }

func configInfo(settings map[string]string) prometheus.Collector {
	return info("config_info", "The settings of the node. Always 1.", settings)
}

// Handler serves the metrics, and those of Go and the process.
func (m *Metrics) Handler() http.Handler {
	all := prometheus.NewRegistry()
	all.MustRegister(m, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(all, promhttp.HandlerOpts{
		MaxRequestsInFlight: maxScrapes,
		ErrorHandling:       promhttp.ContinueOnError, // some metrics are better than none
	})
}

func counter(r prometheus.Registerer, name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help})
	r.MustRegister(c)
	return c
}

func counters(r prometheus.Registerer, name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
	r.MustRegister(c)
	return c
}

func histogram(r prometheus.Registerer, name, help string, buckets []float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help,
		Buckets: buckets})
	r.MustRegister(h)
	return h
}

func histograms(r prometheus.Registerer, name, help, label string, buckets []float64) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help,
		Buckets: buckets}, []string{label})
	r.MustRegister(h)
	return h
}

// other is the label of keys without their own.
const other = "other"

// countBy returns a function that counts a key without an allocation. Keys that are not in known count as other.
func countBy[K comparable](c *prometheus.CounterVec, known []K) func(K) {
	byKey, rest := make(map[K]prometheus.Counter), c.WithLabelValues(other)
	for _, key := range known {
		byKey[key] = c.WithLabelValues(fmt.Sprint(key))
	}
	return func(key K) {
		if one, ok := byKey[key]; ok {
			one.Inc()
			return
		}
		rest.Inc()
	}
}

// times are buckets in seconds: from a round trip to a near Redis to the longest wait for a lock.
var times = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}

// info returns a metric that is always 1; its labels are the information.
func info(name, help string, labels map[string]string) prometheus.Collector {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help, ConstLabels: labels})
	g.Set(1)
	return g
}

// build returns Go's build information about this program.
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

// Join returns a trace that calls the functions of both. T is a struct of functions without results; nil functions
// are skipped. Neither trace is changed.
func Join[T any](first, second *T) *T {
	if second == nil {
		return first
	}
	both := *first
	all, more := reflect.ValueOf(&both).Elem(), reflect.ValueOf(second).Elem()
	for i := range all.NumField() {
		one, other := reflect.ValueOf(first).Elem().Field(i), more.Field(i)
		switch {
		case other.IsNil():
		case one.IsNil():
			all.Field(i).Set(other)
		default:
			all.Field(i).Set(reflect.MakeFunc(one.Type(), func(args []reflect.Value) []reflect.Value {
				one.Call(args)
				return other.Call(args)
			}))
		}
	}
	return &both
}
