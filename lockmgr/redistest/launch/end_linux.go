package launch

import (
	"os"
	"os/exec"
	"syscall"
)

// endWithUs has the kernel kill the process of cmd when the thread ends that starts it.
func endWithUs(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// lock locks a file until it is closed, or this process ends however. It fails if
// somebody else has.
func lock(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}
