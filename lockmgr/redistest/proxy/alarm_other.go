//go:build !linux

package proxy

import "time"

// alarm makes a wait exact on Linux only.
type alarm struct{}

func (*alarm) set(time.Time) {}
func (*alarm) close()        {}
