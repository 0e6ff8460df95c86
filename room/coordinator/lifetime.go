package coordinator

import (
	"context"
	"time"
)

// lifetime says when the parts of a coordinator come to an end.
type lifetime struct {
	open context.Context // ends when Close begins
	shut context.CancelFunc

	life context.Context // ends when Close does not wait any longer
	kill context.CancelFunc
}

func newLifetime() lifetime {
	var l lifetime
	l.open, l.shut = context.WithCancel(context.Background())
	l.life, l.kill = context.WithCancel(context.Background())
	return l
}

// pause waits for d or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
