package lockmgr

import "errors"

var (
	// ErrHeld says that the lock was not taken because somebody else holds it.
	// It is worth trying again later.
	ErrHeld = errors.New("lock is held by another")

	// ErrLost says that the lock is not ours any more: it expired, or somebody
	// else took it after it had. What was done under it may have overlapped
	// with another hold.
	ErrLost = errors.New("lock was lost")

	// ErrInvalid says that an argument cannot be used. The message names it and
	// nothing was sent to Redis.
	ErrInvalid = errors.New("invalid argument")
)
