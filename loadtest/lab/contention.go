package lab

import (
	"context"
	"fmt"
)

// How many callers are many, and how many processes they share.
const (
	manyCallers   = 32
	manyProcesses = 4
)

// playContention lets many callers join and leave in turns. Nothing has to expire
// for it, so it runs by the published times; and nobody looks between the commands,
// so that the rate is that of the discipline.
func playContention(ctx context.Context, x *cell) error {
	for i := range manyProcesses {
		p, err := newProcess(x, fmt.Sprint(i+1), nil)
		if err != nil {
			return err
		}
		x.processes = append(x.processes, p)
	}
	over, stop := context.WithTimeout(ctx, x.lab.cfg.Duration)
	defer stop()
	x.over = over.Done()
	for i := range manyCallers {
		c := x.callerIn(x.processes[i%manyProcesses], fmt.Sprintf("player-%02d", i+1), false)
		x.running.Go(func() {
			for over.Err() == nil {
				c.request(ctx)
				c.leave = !c.leave
			}
		})
	}
	x.running.Wait() // over must not end before
	return nil
}
