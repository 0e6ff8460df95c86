package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"text/tabwriter"
	"time"
)

// report is a whole run.
type report struct {
	Began    time.Time `json:"began"`
	Go       string    `json:"go"`
	CPUs     int       `json:"cpus"`
	Redis    string    `json:"redis_version"`
	Own      bool      `json:"own_redis"`
	Duration string    `json:"duration"`
	Results  []result  `json:"results"`
}

func newReport(s *server, duration time.Duration) *report {
	return &report{
		Began:    time.Now(),
		Go:       runtime.Version(),
		CPUs:     runtime.NumCPU(),
		Redis:    s.version,
		Own:      s.process != nil,
		Duration: duration.String(),
	}
}

func (r *report) write(file string) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(data, '\n'), 0o644)
}

// verdict returns an error if a lock was held twice or a contender could not be
// measured.
func (r *report) verdict() error {
	var violated, failed int
	for _, one := range r.Results {
		if one.Violations > 0 {
			violated++
		}
		if one.Error != "" || one.Hung > 0 {
			failed++
		}
	}
	var errs []error
	if violated > 0 {
		errs = append(errs, fmt.Errorf("mutual exclusion was violated in %d of %d measurements", violated, len(r.Results)))
	}
	if failed > 0 {
		errs = append(errs, fmt.Errorf("%d of %d measurements failed", failed, len(r.Results)))
	}
	return errors.Join(errs...)
}

// printTable prints the results of one workload, and remarks below them.
func printTable(out io.Writer, load workload, results []result) error {
	at := slices.IndexFunc(results, func(r result) bool { return r.Contender == reference })
	ratio := func(value func(result) float64, r result) string {
		if at < 0 || r.Holds == 0 || value(results[at]) == 0 {
			return "–"
		}
		return fmt.Sprintf("%.2f×", value(r)/value(results[at]))
	}
	fmt.Fprintf(out, "\n%s: %s\n", load, load.about)
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "%-11s\tholds/s\tratio\tp50 ms\tp99 ms\tratio\tmax ms\tJain\tcommands/hold\treads/hold\tredis µs/hold\t\n", "")
	for _, r := range results {
		if r.Holds == 0 {
			fmt.Fprintf(w, "%-11s\t0\t–\t–\t–\t–\t–\t–\t–\t–\t–\t\n", r.Contender)
			continue
		}
		fmt.Fprintf(w, "%-11s\t%.0f\t%s\t%.2f\t%.2f\t%s\t%.1f\t%.2f\t%.1f\t%.1f\t%.0f\t\n", r.Contender,
			r.HoldsPerSecond, ratio(func(r result) float64 { return r.HoldsPerSecond }, r),
			r.WaitP50, r.WaitP99, ratio(func(r result) float64 { return r.WaitP99 }, r), r.WaitMax,
			r.Jain, r.CommandsPerHold, r.ReadsPerHold, r.RedisMicros)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, r := range results {
		for _, remark := range r.remarks() {
			if _, err := fmt.Fprintf(out, "%s: %s\n", r.Contender, remark); err != nil {
				return err
			}
		}
	}
	return nil
}
