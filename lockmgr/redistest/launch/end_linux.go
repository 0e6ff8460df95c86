package launch

import (
	"os"
	"os/exec"
	"syscall"
)

// endWithUs has the kernel kill the process of cmd when the thread that starts it ends, and only then: what a
// terminal sends to this program and its children on ^C goes to this program alone, which may need its servers for
// what it still has to say.
func endWithUs(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// lock locks a file until it is closed or this process ends. It fails if another process has
// locked it.
func lock(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}
