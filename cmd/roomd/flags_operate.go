package main

import (
	"fmt"
	"time"
)

// operateFlags say what an operator sees of a node.
type operateFlags struct {
	AdminListen string `placeholder:"HOST:PORT" help:"Where operators find their page /admin, /metrics (Prometheus), /debug/pprof/ and /healthz, such as 127.0.0.1:9090. On loopback all of this machine may look; elsewhere an admin token is needed, and so a key. Off unless given."`

	LogLevel   string        `default:"info" enum:"trace,debug,info,warn,error" placeholder:"info" help:"One of ${enum}."`
	LogFormat  string        `default:"console" enum:"console,json" placeholder:"console" help:"One of ${enum}."`
	DrainDelay time.Duration `default:"0s" placeholder:"0s" help:"After SIGTERM: how long /readyz fails before the node stops serving new clients. Longer than two probes of the load balancer."`
}

func (f *operateFlags) validate() error {
	if f.DrainDelay < 0 {
		return fmt.Errorf("--drain-delay is %v, it must not be negative", f.DrainDelay)
	}
	return nil
}
