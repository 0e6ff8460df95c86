//go:build !linux

package launch

import (
	"errors"
	"os"
	"os/exec"
)

// endWithUs does nothing: the kernel does not end a process with another here.
func endWithUs(*exec.Cmd) {}

// lock always fails: a server may outlive its launcher here and still use its folder, so no
// folder can be known as abandoned.
func lock(*os.File) error { return errors.ErrUnsupported }
