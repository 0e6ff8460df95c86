package main

import "fmt"

// redisFlags say where the rooms are kept.
type redisFlags struct {
	Redis    string `default:"embedded" placeholder:"URL" help:"redis://[:password@]host:port[/db], rediss://… for TLS, unix:///path/to/socket, redis+sentinel://host:port,…/master, redis+cluster://host:port,…, or embedded: inside this process, keeping nothing, for trying it out (default ${default})."`
	Replicas int    `default:"0" placeholder:"0" help:"How many replicas of Redis must have an action before it is acknowledged."`
}

func (f *redisFlags) validate() error {
	if f.Replicas < 0 {
		return fmt.Errorf("--replicas is %d, it must not be negative", f.Replicas)
	}
	return nil
}
