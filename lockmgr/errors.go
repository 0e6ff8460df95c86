package lockmgr

import (
	"errors"
	"fmt"
)

var (
	// ErrHeld says that the lock was not taken because somebody else holds it
	// or has waited longer. It is worth trying again later.
	ErrHeld = errors.New("lock is held by another")

	// ErrBusy says that an Acquire did not begin to wait: too many wait already
	// (Options.MaxWaiters), or its deadline will have passed before its turn.
	ErrBusy = errors.New("too many wait for the lock")

	// ErrLost says that the lock is not ours any more. What was done under it
	// may have overlapped with another hold. The errors below are ErrLost too,
	// and say how.
	ErrLost = errors.New("lock was lost")

	// ErrExpired: the deadline has passed without an extension.
	ErrExpired = fmt.Errorf("%w: it expired", ErrLost)

	// ErrStolen: the key is gone or holds another's token before the deadline.
	// Redis was emptied or failed over, or somebody deleted the key.
	ErrStolen = fmt.Errorf("%w: somebody else has it", ErrLost)

	// ErrUnreachable: Redis did not answer the last extension until the deadline.
	ErrUnreachable = fmt.Errorf("%w: redis cannot be reached", ErrLost)

	// ErrReleased says that the lock has been given back already.
	ErrReleased = errors.New("lock is released")

	// ErrClosed says that the Manager is closed.
	ErrClosed = errors.New("lock manager is closed")

	// ErrInvalid says that an argument cannot be used. The message names it and
	// nothing was sent to Redis.
	ErrInvalid = errors.New("invalid argument")
)

var (
	errNilContext = fmt.Errorf("ctx is nil: %w", ErrInvalid)

	// errLate says that the lock was ours, but not any more by the time that we heard.
	errLate = fmt.Errorf("the reply took longer than the TTL: %w", ErrExpired)
)
