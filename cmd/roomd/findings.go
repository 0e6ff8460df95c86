package main

import (
	"encoding/json"
	"fmt"
	"io"
)

// What a finding is.
const (
	levelOK   = "ok"
	levelWarn = "warn" // it works, and something can be lost, or slow
	levelFail = "fail" // it does not work
)

// finding is what "roomd check" says of one thing.
type finding struct {
	Level string `json:"level"`
	Check string `json:"check"`
	Text  string `json:"text"`
	Do    string `json:"do,omitempty"`
}

// findings are in the order in which they were found.
type findings []finding

func (f *findings) ok(check, format string, args ...any) {
	*f = append(*f, finding{levelOK, check, fmt.Sprintf(format, args...), ""})
}

// warn and fail take what to do about it first.
func (f *findings) warn(check, do, format string, args ...any) {
	*f = append(*f, finding{levelWarn, check, fmt.Sprintf(format, args...), do})
}

func (f *findings) fail(check, do, format string, args ...any) {
	*f = append(*f, finding{levelFail, check, fmt.Sprintf(format, args...), do})
}

func (f findings) count(level string) (n int) {
	for _, one := range f {
		if one.Level == level {
			n++
		}
	}
	return n
}

// errMustChange ends "roomd check" with 1.
type errMustChange int

func (n errMustChange) Error() string {
	if n == 1 {
		return "check: one thing must be changed"
	}
	return fmt.Sprintf("check: %d things must be changed", int(n))
}

// write writes a line for each finding, or one JSON object.
func (f findings) write(w io.Writer, asJSON bool) error {
	if asJSON {
		out := json.NewEncoder(w)
		out.SetEscapeHTML(false)
		return out.Encode(struct {
			OK       bool     `json:"ok"`
			Findings findings `json:"findings"`
		}{f.count(levelFail) == 0, f})
	}
	for _, one := range f {
		line := fmt.Sprintf("%-5s %-12s %s", one.Level, one.Check, one.Text)
		if one.Do != "" {
			line += ". " + one.Do
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}
