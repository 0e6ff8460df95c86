package main

import "fmt"

// limitFlags say how much clients may ask of a node.
type limitFlags struct {
	MaxConnections int  `default:"50000" placeholder:"50000" help:"How many game clients may be connected; further ones get HTTP 503. Fewer if the process may not have as many files open (ulimit -n)."`
	MaxQueue       size `default:"256KiB" placeholder:"256KiB" help:"How many bytes may wait for a client that reads slowly: of replies, until its next request waits, and of changes in its rooms, until it is closed (4008). A single reply may be longer."`
}

func (f *limitFlags) validate() error {
	switch {
	case f.MaxConnections < 1:
		return fmt.Errorf("--max-connections is %d, it must be at least 1", f.MaxConnections)
	case f.MaxQueue < 1:
		return fmt.Errorf("--max-queue is %d, it must be at least 1", f.MaxQueue)
	}
	return nil
}
