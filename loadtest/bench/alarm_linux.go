package bench

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// alarm makes a deadline exact. On Linux a process of Go that has nothing to do sleeps for whole milliseconds, unless
// a file wakes it up: this one, whose contents nobody reads.
type alarm struct {
	fd   int
	file *os.File
}

// newAlarm returns an alarm, nil if there is none to have.
func newAlarm() *alarm {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil
	}
	return &alarm{fd, os.NewFile(uintptr(fd), "timerfd")}
}

func (a *alarm) set(at time.Time) {
	in := unix.ItimerSpec{Value: unix.NsecToTimespec(max(1, time.Until(at).Nanoseconds()))}
	_ = unix.TimerfdSettime(a.fd, 0, &in, nil)
}

func (a *alarm) close() { _ = a.file.Close() }
