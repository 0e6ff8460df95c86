package proxy

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// alarm makes a wait exact. On Linux a process of Go that has nothing to do sleeps for whole milliseconds, unless
// a file wakes it up: this one, whose contents nobody reads. The zero value is ready.
type alarm struct {
	fd   int
	file *os.File // nil before set
}

// set has the process awake at a time, if that is not over.
func (a *alarm) set(at time.Time) {
	d := time.Until(at)
	if d <= 0 {
		return
	}
	if a.file == nil {
		fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
		if err != nil {
			return // it is late then
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
