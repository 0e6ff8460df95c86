package launch

import (
	"os"
	"os/exec"
	"syscall"
)

// endWithUs makes the kernel kill the process of cmd when the thread that starts it ends. The process gets a process
// group of its own, so that ^C in a terminal reaches only this program, which may still need its servers.
func endWithUs(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// lock locks a file until it is closed or this process ends. It fails if another process has locked it.
func lock(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}
