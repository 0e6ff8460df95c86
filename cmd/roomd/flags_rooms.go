package main

import (
	"fmt"
	"time"

	"roomd/room"
	"roomd/room/coordinator"
)

// roomFlags say how rooms work, and the lock before them.
type roomFlags struct {
	LockTTL  time.Duration `default:"3s" placeholder:"3s" help:"How long a crashed holder can block a room."`
	LockPoll time.Duration `default:"5ms" placeholder:"5ms" help:"Pause between two attempts at a held lock."`
	LockWait time.Duration `default:"10s" placeholder:"10s" help:"How long an action waits for its room before it is refused as busy."`
	MaxBatch int           `default:"256" placeholder:"256" help:"How many actions may share one hold of the lock. 1 takes it for each anew."`
	Capacity int           `default:"0" placeholder:"0" help:"How many members a room may have. 0 sets no limit of its own (65536 seats)."`

	Journal int `default:"0" placeholder:"0" help:"About how many of its last commits each room keeps in Redis, for audits. 0 keeps none."`

	Duplicate string        `default:"replace" enum:"replace,reject" placeholder:"replace" help:"What happens when a user joins a room with a second connection: replace closes the first one (4001), reject refuses the second."`
	Grace     time.Duration `default:"10s" placeholder:"10s" help:"How long the user of a lost connection, or of a node that has gone, keeps the seats. 0 frees them at once."`
	NodeTTL   time.Duration `placeholder:"5s" help:"How long a node that has stopped is taken to be alive: 5s, or --lock-ttl if that is longer."`
}

func (f *roomFlags) validate() error {
	for _, d := range []struct {
		flag  string
		value time.Duration
	}{{"lock-ttl", f.LockTTL}, {"lock-poll", f.LockPoll}, {"lock-wait", f.LockWait}} {
		if d.value <= 0 {
			return fmt.Errorf("--%s is %v, it must be more than zero", d.flag, d.value)
		}
	}
	switch {
	case f.LockPoll >= f.LockTTL:
		return fmt.Errorf("--lock-poll is %v, it must be shorter than --lock-ttl (%v)", f.LockPoll, f.LockTTL)
	case f.MaxBatch < 1:
		return fmt.Errorf("--max-batch is %d, it must be at least 1", f.MaxBatch)
	case f.NodeTTL != 0 && f.NodeTTL < f.LockTTL:
		return fmt.Errorf("--node-ttl is %v, it must not be shorter than --lock-ttl (%v)", f.NodeTTL, f.LockTTL)
	case f.Grace < 0:
		return fmt.Errorf("--grace is %v, it must not be negative", f.Grace)
	case f.Journal < 0 || f.Journal > coordinator.MaxJournal:
		return fmt.Errorf("--journal is %d, it must be from 0 (none) to %d", f.Journal, coordinator.MaxJournal)
	case f.Capacity < 0 || f.Capacity > room.MaxSeats:
		return fmt.Errorf("--capacity is %d, it must be from 0 (no limit of its own) to %d", f.Capacity, room.MaxSeats)
	}
	return nil
}

// grace returns the grace as Options have it, where zero means the default.
func (f *roomFlags) grace() time.Duration {
	if f.Grace == 0 {
		return -1
	}
	return f.Grace
}
