package coordinator

import "context"

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
