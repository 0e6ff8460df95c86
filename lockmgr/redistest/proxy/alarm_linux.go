package proxy

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// alarm makes a wait exact. On Linux an idle Go process sleeps for whole milliseconds, unless a file wakes it up. The
// alarm's file does; nobody reads it. The zero value is ready.
type alarm struct {
	fd   int
	file *os.File // nil before set
}

// set makes the kernel wake the process at that time, if it has not passed.
func (a *alarm) set(at time.Time) {
	d := time.Until(at)
	if d <= 0 {
		return
	}
	if a.file == nil {
		fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
		if err != nil {
			return // the wait is then late
		}
		a.fd, a.file = fd, os.NewFile(uintptr(fd), "timerfd")
	}
	_ = unix.TimerfdSettime(a.fd, 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(d.Nanoseconds())}, nil)
}

func (a *alarm) close() {
	if a.file != nil {
		_ = a.file.Close()
	}
}
