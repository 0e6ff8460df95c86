package lab

import (
	"context"
	"fmt"
)

// The callers under heavy load, and the processes that they share.
const (
	manyCallers   = 32
	manyProcesses = 4
)

// playContention lets many callers join and leave over and over. It uses the published
// times, because nothing has to expire, and no observer, so that the rate is that of the
// discipline.
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
	x.running.Wait() // before over ends
	return nil
}
